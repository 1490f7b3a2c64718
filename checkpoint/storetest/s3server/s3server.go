// Package s3server runs a real S3 service for tests: versitygw over a directory,
// as a child process on a free port of the loopback.
//
//	go install github.com/versity/versitygw/cmd/versitygw@v1.8.0
package s3server

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// Install is the command that installs the program.
const Install = "go install github.com/versity/versitygw/cmd/versitygw@v1.8.0"

// Server is a running service.
type Server struct {
	URL            string
	Access, Secret string
	PID            int

	dir string
	n   atomic.Int32
}

// Start starts one that ends with the test. Where the program is missing the
// test is skipped, and fails when CI is set.
func Start(t testing.TB) *Server { return StartIn(t, t.TempDir()) }

// StartIn is Start over a directory. A prefix of the command, if there is one,
// runs it in surroundings of its own.
func StartIn(t testing.TB, dir string, prefix ...string) *Server {
	t.Helper()
	program := Program(t)
	s := &Server{Access: "test-access", Secret: "test-secret-key", dir: dir}
	for try := 0; ; try++ {
		err := s.start(t, append(prefix, program))
		if err == nil {
			return s
		}
		if try == 4 { // someone else takes the port that was free a moment ago
			t.Fatalf("starting %s: %v", program, err)
		}
	}
}

// Program finds the program.
func Program(t testing.TB) string {
	t.Helper()
	program, err := exec.LookPath("versitygw")
	if err != nil {
		home, _ := os.UserHomeDir()
		program, err = exec.LookPath(filepath.Join(home, "go", "bin", "versitygw"))
	}
	if err == nil {
		return program
	}
	why := "versitygw is not on PATH: " + Install
	if os.Getenv("CI") == "true" {
		t.Fatal(why)
	}
	t.Skip(why)
	return ""
}

func (s *Server) start(t testing.TB, argv []string) error {
	port, err := freePort()
	if err != nil {
		return err
	}
	s.URL = fmt.Sprintf("http://127.0.0.1:%d", port)
	argv = append(argv, "--access", s.Access, "--secret", s.Secret, "--port", fmt.Sprintf("127.0.0.1:%d", port),
		"--keep-alive", "--quiet", "posix", s.dir)
	var out bytes.Buffer
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.SysProcAttr = ending()
	if err := cmd.Start(); err != nil {
		return err
	}
	s.PID = cmd.Process.Pid
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	stop := func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(5 * time.Second):
			_ = cmd.Process.Kill()
			<-ended
		}
	}
	if err := s.await(ended); err != nil {
		stop()
		return fmt.Errorf("%w: %s", err, out.String())
	}
	t.Cleanup(stop)
	return nil
}

// await returns when the service answers anything at all.
func (s *Server) await(ended <-chan struct{}) error {
	client := &http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	deadline := time.After(20 * time.Second)
	for {
		resp, err := client.Get(s.URL)
		if err == nil {
			return resp.Body.Close()
		}
		select {
		case <-ended:
			return fmt.Errorf("it ended")
		case <-deadline:
			return fmt.Errorf("no answer at %s: %w", s.URL, err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}

// Bucket makes an empty bucket: to the gateway it is a directory.
func (s *Server) Bucket(t testing.TB) string {
	t.Helper()
	name := fmt.Sprintf("bucket-%d", s.n.Add(1))
	if err := os.Mkdir(filepath.Join(s.dir, name), 0o755); err != nil {
		t.Fatal(err)
	}
	return name
}

// StartFull starts one with room for a megabyte, in which the bucket "full"
// already is. It needs to mount a file system for itself alone; where it may not,
// it returns the reason.
func StartFull(t testing.TB) (*Server, string) {
	t.Helper()
	Program(t)
	const mount = `mount -t tmpfs -o size=1m tmpfs "$1" && mkdir "$1/full" && shift && exec "$@"`
	dir := t.TempDir()
	own := []string{"unshare", "--mount", "--map-root-user", "sh", "-c", mount, "sh", dir}
	if out, err := exec.Command(own[0], append(own[1:], "true")...).CombinedOutput(); err != nil {
		return nil, fmt.Sprintf("no file system of our own to fill: %v: %s", err, bytes.TrimSpace(out))
	}
	return StartIn(t, dir, own...), ""
}
