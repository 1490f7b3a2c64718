//go:build !linux

package agent

// ReadLoad returns the load of the machine; it is not known here.
func ReadLoad() (Load, bool) { return Load{}, false }
