package s3_test

import (
	"bytes"
	"fmt"
	"io"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/spotferry/spotferry/checkpoint/store/s3"
	"github.com/spotferry/spotferry/checkpoint/storetest"
	"github.com/spotferry/spotferry/checkpoint/storetest/s3server"
)

const (
	benchChunk   = 8 << 20
	benchWorkers = 4
)

// BenchmarkPut and BenchmarkGet move chunks of the engine's size to and from a
// real service on the loopback and report what they cost this process; the
// service's own time is not in it.
func BenchmarkPut(b *testing.B) {
	data := storetest.Content(benchChunk)
	perGB(b, func(s *s3.Store, name string) error {
		return s.Put(b.Context(), name, bytes.NewReader(data), benchChunk)
	})
}

func BenchmarkGet(b *testing.B) {
	data := storetest.Content(benchChunk)
	var once sync.Once
	var buffers sync.Pool
	buffers.New = func() any { return bytes.NewBuffer(make([]byte, benchChunk)) }
	perGB(b, func(s *s3.Store, _ string) (err error) {
		once.Do(func() { err = s.Put(b.Context(), "v1/there", bytes.NewReader(data), benchChunk) })
		if err != nil {
			return err
		}
		r, err := s.Range(b.Context(), "v1/there", 0, benchChunk)
		if err != nil {
			return err
		}
		defer r.Close()
		buf := buffers.Get().(*bytes.Buffer)
		defer buffers.Put(buf)
		_, err = io.ReadFull(r, buf.Bytes())
		return err
	})
}

func perGB(b *testing.B, do func(s *s3.Store, name string) error) {
	server := s3server.Start(b)
	s, err := s3.Open(s3.Config{Bucket: server.Bucket(b), Endpoint: server.URL, Access: server.Access, Secret: server.Secret})
	if err != nil {
		b.Fatal(err)
	}
	names := make(chan string)
	var wg sync.WaitGroup
	b.SetBytes(benchChunk)
	before := cpu()
	b.ResetTimer()
	for range benchWorkers {
		wg.Go(func() {
			for name := range names {
				if err := do(s, name); err != nil {
					b.Error(err)
				}
			}
		})
	}
	for i := range b.N {
		names <- fmt.Sprintf("v1/chunk/%d", i)
	}
	close(names)
	wg.Wait()
	b.StopTimer()
	b.ReportMetric((cpu()-before).Seconds()*1e9/float64(b.N*benchChunk), "cpu-s/GB")
}

func cpu() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
