//go:build !linux

package dir

import (
	"errors"
	"os"
)

func damaged(error) bool { return false }

func setDirect(_ *os.File, on bool) error {
	if on {
		return errors.ErrUnsupported
	}
	return nil
}

func refused(error) bool { return false }

func renameNew(*os.File, string, *os.File, string) error { return errors.ErrUnsupported }
