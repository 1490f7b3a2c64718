//go:build !linux

package rehearse

import "github.com/spotferry/spotferry/events"

// memory is not measured here: local machines need Linux.
type memory struct{ peak int64 }

func newMemory(events.JobID) *memory { return &memory{} }

func (*memory) sample() int { return 0 }

// ThisMachine describes this machine, but for its GPUs.
func ThisMachine(cpus int) Machine { return Machine{CPUs: cpus, GPUs: []string{}} }
