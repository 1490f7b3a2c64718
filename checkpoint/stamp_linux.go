package checkpoint

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// stampOf returns by what a change of a file shows.
func stampOf(info fs.FileInfo) (stamp, bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return stamp{}, false
	}
	return stamp{inode{uint64(st.Dev), st.Ino}, st.Size, st.Mtim.Nano(), st.Ctim.Nano()}, true
}

// clock is the time that file systems stamp files with, also where package time
// is virtual.
func clock() int64 {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_REALTIME_COARSE, &ts) != nil {
		return 0 // nothing is ever settled
	}
	return ts.Nano()
}

// keepsTime reports whether an open file lies on a file system whose kernel is
// this one, and stamps every change.
func keepsTime(f *os.File) bool {
	var st unix.Statfs_t
	if unix.Fstatfs(int(f.Fd()), &st) != nil {
		return false
	}
	switch uint32(st.Type) {
	case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.F2FS_SUPER_MAGIC, unix.TMPFS_MAGIC,
		unix.OVERLAYFS_SUPER_MAGIC, unix.BCACHEFS_SUPER_MAGIC, 0x2FC12FC1: // the last is ZFS
		return true
	}
	return false
}

// data returns the next run of bytes of an open file at or after off that are
// stored at all; what lies between such runs is a hole. Without an answer, the
// rest counts as stored. At the end of the data, from is size.
func data(f *os.File, off, size int64) (from, to int64) {
	from, err := unix.Seek(int(f.Fd()), off, unix.SEEK_DATA)
	if errors.Is(err, unix.ENXIO) {
		return size, size
	}
	if err != nil || from < off {
		return off, size
	}
	to, err = unix.Seek(int(f.Fd()), from, unix.SEEK_HOLE)
	if err != nil || to <= from {
		to = size
	}
	return min(from, size), min(to, size)
}

// stored returns at most how many of a file's bytes are stored at all.
func stored(info fs.FileInfo) int64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return min(st.Blocks*512, st.Size)
	}
	return info.Size()
}

// reserve makes room for a whole file, so that a full disk shows before anything
// is fetched and the file lies in one piece. File systems that cannot do it need
// not.
func reserve(f *os.File, off, n int64) error {
	err := unix.Fallocate(int(f.Fd()), 0, off, n)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EINVAL) {
		return nil
	}
	return err
}

// writeBack starts to write a run of a file to the disk, without waiting.
func writeBack(f *os.File, off, n int64) {
	_ = unix.SyncFileRange(int(f.Fd()), off, n, unix.SYNC_FILE_RANGE_WRITE) // the fsync at the end tells
}

const canSyncAll = true

// syncAll makes everything on the file system of an open file durable.
func syncAll(f *os.File) error { return unix.Syncfs(int(f.Fd())) }

// linksOf counts the names that a file has.
func linksOf(info fs.FileInfo) uint64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(st.Nlink)
	}
	return 1
}
