package s3server

import "syscall"

// ending takes the child along when the test dies. It does so when the thread
// that started the child ends, which Go's threads do only with the process here.
func ending() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
