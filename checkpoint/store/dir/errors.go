package dir

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"github.com/spotferry/spotferry/checkpoint"
)

// missing maps what reading says to the contract's errors. EIO is the disk, and
// EUCLEAN the file system, saying that these bytes are lost.
func missing(err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return fmt.Errorf("%w: %w", checkpoint.ErrNotFound, err)
	case errors.Is(err, syscall.EIO), damaged(err):
		return fmt.Errorf("%w: %w", checkpoint.ErrCorrupt, err)
	}
	return err
}

// full tells a full disk, or a used-up quota, from other trouble.
func full(where string, err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return fmt.Errorf("%w in the checkpoint store %s: enlarge it or keep fewer checkpoints: %w",
			checkpoint.ErrNoSpace, where, err)
	}
	return err
}
