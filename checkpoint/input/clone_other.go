//go:build !linux

package input

import (
	"errors"
	"os"
)

func clone(_, _ *os.File) error { return errors.ErrUnsupported }
