//go:build !linux

package local

import (
	"context"
	"errors"
	"os"
	"syscall"
	"time"
)

// MetadataEndpoint is the variable by which the agent, and the seller's own
// software, finds the metadata service.
const MetadataEndpoint = "AWS_EC2_METADATA_SERVICE_ENDPOINT"

const selfPath = ""

func supported() error {
	return errors.New("the local seller runs its machines as Linux processes: use Linux, or a seller in the cloud")
}

// RunHost cannot run here.
func RunHost(context.Context, string) error { return supported() }

// New refuses before any of these is reached.

type cgroup string

func (cgroup) remove() {}

func lockFully(*os.File) error                              { return supported() }
func tryLock(string) (*os.File, error)                      { return nil, supported() }
func spawn([]string, []string, string, string) (int, error) { return 0, supported() }
func ended(int) bool                                        { return true }
func signalTo(process, syscall.Signal) error                { return supported() }
func leftovers(string) ([]process, error)                   { return nil, supported() }
func killAll(func() ([]process, error), func(), cgroup, time.Time) (int, error) {
	return 1, supported()
}
