package natsbus

import (
	"fmt"
	"testing"

	"github.com/spotferry/spotferry/events"
)

// BenchmarkAppend measures one writer in this process on a disk that syncs
// every message, beside a bare publish of the same bytes on the same server.
func BenchmarkAppend(b *testing.B) {
	e, err := Start(EmbeddedConfig{Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	defer e.Shutdown()
	nc, err := Connect(ConnConfig{Server: e, Name: "bench"})
	if err != nil {
		b.Fatal(err)
	}
	defer nc.Close()
	l, err := New(nc, Options{Room: e.Room})
	if err == nil {
		err = Declare(b.Context(), l.JetStream(), 1)
	}
	if err != nil {
		b.Fatal(err)
	}
	run := 0
	b.Run("bare publish", func(b *testing.B) {
		a := events.JobAggregate(org, "bare")
		m, err := events.Encode(follow(b, a, nil, waiting(1)))
		if err != nil {
			b.Fatal(err)
		}
		delete(m.Header, events.HeaderMsgID)
		for b.Loop() {
			if _, err := l.JetStream().PublishMsg(b.Context(), message(m)); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("append", func(b *testing.B) {
		run++
		a := events.JobAggregate(org, events.JobID(fmt.Sprint("job", run)))
		var prev *events.Event
		var after uint64
		for b.Loop() {
			got, err := l.Append(b.Context(), after, follow(b, a, prev, waiting(run)))
			if err != nil {
				b.Fatal(err)
			}
			prev, after = &got, got.Position
		}
	})
	for _, n := range []int{0, 1, 10} {
		b.Run(fmt.Sprint("read ", n, " new"), func(b *testing.B) {
			run++
			a := events.JobAggregate(org, events.JobID(fmt.Sprint("job", run)))
			all := grow(b, l, a, 30)
			after := all[len(all)-1-n].Position
			for b.Loop() {
				if got, err := l.Read(b.Context(), a, after); err != nil || len(got) != n {
					b.Fatal(len(got), err)
				}
			}
		})
	}
}
