package natsbus

import "path/filepath"

// URLFile names the file in a bus's state directory that holds its current URL
// while it listens.
func URLFile(dir string) string { return filepath.Join(dir, urlFile) }
