package agent

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// KernelLogPath is where Linux shows its log to who may read it.
const KernelLogPath = "/dev/kmsg"

// kernelLog reads what is written to the kernel's log from now on: what is in it
// already was before this machine was ours, or is no news. A file that grows will
// do as well.
type kernelLog struct {
	fd   int
	part []byte
}

// openKernelLog returns an error if the log may not be read, as in most containers.
func openKernelLog(path string) (*kernelLog, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	if _, err := unix.Seek(fd, 0, io.SeekEnd); err != nil {
		_ = unix.Close(fd)
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return &kernelLog{fd: fd}, nil
}

func (k *kernelLog) close() { _ = unix.Close(k.fd) }

// maxKernelLines is the most that one look takes in.
const maxKernelLines = 1000

// news returns the lines written since the last look. It waits for nothing. An
// error means that there will be no more.
func (k *kernelLog) news() (lines []string, err error) {
	buf := make([]byte, 16<<10) // a record of /dev/kmsg is shorter
	for len(lines) < maxKernelLines {
		n, err := unix.Read(k.fd, buf)
		switch {
		case errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.EINTR):
			continue // lines were overwritten before they were read
		case errors.Is(err, syscall.EAGAIN) || err == nil && n == 0:
			return lines, nil
		case err != nil:
			return lines, err
		}
		lines = k.split(lines, buf[:n])
	}
	return lines, nil
}

func (k *kernelLog) split(lines []string, data []byte) []string {
	k.part = append(k.part, data...)
	for {
		i := bytes.IndexByte(k.part, '\n')
		if i < 0 {
			if len(k.part) > 64<<10 {
				k.part = nil // no log has such lines
			}
			return lines
		}
		if text := kernelText(string(k.part[:i])); text != "" {
			lines = append(lines, text)
		}
		k.part = k.part[i+1:]
	}
}

// kernelText is what a record of /dev/kmsg says: "6,1234,5678,-;text". Lines that
// begin with a space are its dictionary.
func kernelText(line string) string {
	if strings.HasPrefix(line, " ") {
		return ""
	}
	if head, text, ok := strings.Cut(line, ";"); ok && strings.Count(head, ",") >= 2 && !strings.Contains(head, " ") {
		return text
	}
	return line
}
