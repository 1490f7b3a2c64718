//go:build !linux

package dir

// damaged reports whether the file system says that its own structure is broken.
func damaged(error) bool { return false }
