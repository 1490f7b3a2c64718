package trainer

import (
	"errors"
	"fmt"
)

// The codes a trainer ends with. Any other failure, a full disk for one, is 1.
const (
	CodeUsage  = 2   // a flag, a variable or the text is wrong: no restart will help
	CodeResume = 3   // the checkpoint to resume from is torn, foreign or unreadable
	CodeStop   = 143 // told to stop by SIGTERM, and saved first
)

// ExitError is an error that names the code the process should end with.
type ExitError struct {
	Code int
	Err  error
}

func (e *ExitError) Error() string { return e.Err.Error() }

func (e *ExitError) Unwrap() error { return e.Err }

// ExitCode is the code a process should end with when Run returned err: 0 for
// nil, and 1 for an error that names none.
func ExitCode(err error) int {
	if err == nil {
		return 0
	}
	if e, ok := errors.AsType[*ExitError](err); ok {
		return e.Code
	}
	return 1
}

func exitf(code int, format string, args ...any) error {
	return &ExitError{Code: code, Err: fmt.Errorf(format, args...)}
}
