package dir

import (
	"errors"
	"syscall"
)

// damaged reports whether the file system says that its own structure is broken.
func damaged(err error) bool { return errors.Is(err, syscall.EUCLEAN) }
