package nats_test

import (
	"bytes"
	"fmt"
	"io"
	"path/filepath"
	"testing"

	"github.com/spotferry/spotferry/checkpoint/store/nats"
	"github.com/spotferry/spotferry/checkpoint/storetest"
	"github.com/spotferry/spotferry/events/natsbus"
	"github.com/spotferry/spotferry/events/natsbus/natsbustest"
)

// BenchmarkObjects puts, gets and ranges objects of a chunk of the engine's, on
// an embedded bus whose disk is memory.
func BenchmarkObjects(b *testing.B) {
	e, err := natsbus.Start(natsbus.EmbeddedConfig{Dir: filepath.Join(natsbustest.Dir(b), "bus")})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(e.Shutdown)
	nc, err := natsbus.Connect(natsbus.ConnConfig{Server: e, Name: "bench"})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(nc.Close)
	s, err := nats.Open(b.Context(), nc, nats.Config{})
	if err != nil {
		b.Fatal(err)
	}
	const size = 8 << 20
	data, n := storetest.Content(size), 0
	check := func(b *testing.B, err error) {
		if err != nil {
			b.Fatal(err)
		}
	}
	b.Run("put", func(b *testing.B) {
		b.SetBytes(size)
		for b.Loop() {
			n++
			name := fmt.Sprintf("v1/%d", n)
			check(b, s.Put(b.Context(), name, bytes.NewReader(data), size))
			check(b, s.Delete(b.Context(), name))
		}
	})
	check(b, s.Put(b.Context(), "v1/a", bytes.NewReader(data), size))
	b.Run("get", func(b *testing.B) {
		b.SetBytes(size)
		for b.Loop() {
			r, err := s.Get(b.Context(), "v1/a")
			check(b, err)
			_, err = io.Copy(io.Discard, r)
			check(b, err)
		}
	})
	b.Run("range of 64 KiB at the end", func(b *testing.B) {
		for b.Loop() {
			r, err := s.Range(b.Context(), "v1/a", size-64<<10, 64<<10)
			check(b, err)
			_, err = io.Copy(io.Discard, r)
			check(b, err)
		}
	})
}
