package dir

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// damaged reports whether the file system says that its own structure is broken.
func damaged(err error) bool { return errors.Is(err, syscall.EUCLEAN) }

// setDirect has an open file go around the page cache, or not.
func setDirect(f *os.File, on bool) error {
	fd := f.Fd()
	flags, err := unix.FcntlInt(fd, unix.F_GETFL, 0)
	if err != nil {
		return err
	}
	if flags &^= unix.O_DIRECT; on {
		flags |= unix.O_DIRECT
	}
	_, err = unix.FcntlInt(fd, unix.F_SETFL, flags)
	return err
}

// refused reports whether a direct write was not possible as it was asked for.
func refused(err error) bool { return errors.Is(err, syscall.EINVAL) }
