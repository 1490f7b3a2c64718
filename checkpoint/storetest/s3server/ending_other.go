//go:build !linux

package s3server

import "syscall"

func ending() *syscall.SysProcAttr { return nil }
