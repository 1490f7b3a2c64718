package checkpoint

import "errors"

// ErrRefused: the store understood and does not do it for us: a wrong key, a
// missing right, a bucket that is not there, a request it will not take.
// Repeating does not help; the error says what a person changes. It is proof of
// nothing about any object.
var ErrRefused = errors.New("the store refuses")
