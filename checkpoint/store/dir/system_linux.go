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

// renameNew gives a file another name in another directory, if that name is
// free; os.ErrExist if not, and errors.ErrUnsupported where the file system
// cannot tell.
func renameNew(from *os.File, old string, to *os.File, name string) error {
	err := unix.Renameat2(int(from.Fd()), old, int(to.Fd()), name, unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.EINVAL) {
		return errors.ErrUnsupported
	}
	return err
}
