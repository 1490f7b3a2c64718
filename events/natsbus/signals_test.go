package natsbus

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spotferry/spotferry/events"
)

func TestSignalsAreTheNewestOfEachEpoch(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, l *Log) {
		put := func(epoch int, step int64) {
			t.Helper()
			if err := l.PutSignal(t.Context(), Place{org, job, epoch}, events.Heartbeat{Step: step}); err != nil {
				t.Fatal(err)
			}
		}
		put(1, 10)
		put(1, 11)
		put(2, 20)
		if err := l.put(t.Context(), must(jsonMessage("sf.v1.signal.acme.x.notanepoch", 1))); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var got []string
		caught := 0
		done := make(chan error, 1)
		go func() {
			done <- l.WatchSignals(ctx, func() { caught = len(got) }, func(_ context.Context, p Place, h events.Heartbeat) {
				got = append(got, fmt.Sprint(p.Epoch, ":", h.Step))
			})
		}()
		time.Sleep(time.Second)
		put(2, 21)
		time.Sleep(time.Second)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if want := []string{"1:11", "2:20", "2:21"}; !slices.Equal(got, want) || caught != 2 {
			t.Errorf("watched %v, caught up after %d; want %v after 2", got, caught, want)
		}
		if h, ok, err := l.Signal(t.Context(), Place{org, job, 2}); h.Step != 21 || !ok || err != nil {
			t.Errorf("Signal = %+v, %v, %v", h, ok, err)
		}
		if _, ok, err := l.Signal(t.Context(), Place{org, job, 3}); ok || err != nil {
			t.Errorf("Signal of an epoch without one = %v, %v", ok, err)
		}
	})
}

func TestReadLog(t *testing.T) {
	t.Parallel()
	l, _ := declared(t, Options{})
	for _, b := range []struct {
		epoch int
		first int64
		lines string
	}{{1, 1, "a b c"}, {1, 4, "d"}, {1, 4, "d"}, {2, 1, "e f"}, {2, 3, "g h i"}} {
		batch := events.LogBatch{First: b.first}
		for text := range strings.FieldsSeq(b.lines) {
			batch.Lines = append(batch.Lines, events.LogLine{Text: text})
		}
		if err := l.AppendLog(t.Context(), Place{org, job, b.epoch}, batch); err != nil {
			t.Fatal(err)
		}
	}
	for _, tc := range []struct {
		name string
		q    LogQuery
		want string
	}{
		{"all epochs", LogQuery{}, "1/1 a b c|1/4 d|2/1 e f|2/3 g h i"},
		{"one epoch", LogQuery{Epoch: 2}, "2/1 e f|2/3 g h i"},
		{"the last line", LogQuery{Tail: 1}, "2/5 i"},
		{"the last lines across batches", LogQuery{Tail: 4}, "2/2 f|2/3 g h i"},
		{"the last lines across epochs", LogQuery{Tail: 7}, "1/3 c|1/4 d|2/1 e f|2/3 g h i"},
		{"more than there are", LogQuery{Tail: 70}, "1/1 a b c|1/4 d|2/1 e f|2/3 g h i"},
		{"since later", LogQuery{Since: time.Now().Add(time.Hour)}, ""},
		{"since before", LogQuery{Since: time.Now().Add(-time.Hour), Epoch: 1}, "1/1 a b c|1/4 d"},
		{"another job", LogQuery{Job: "other"}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.q.Org = org
			if tc.q.Job == "" {
				tc.q.Job = job
			}
			got, err := l.ReadLog(t.Context(), tc.q)
			if s := logText(got); err != nil || s != tc.want {
				t.Errorf("ReadLog = %q, %v; want %q", s, err, tc.want)
			}
		})
	}
	if _, err := l.ReadLog(t.Context(), LogQuery{Org: org, Job: "*"}); err == nil {
		t.Error("a wildcard job was accepted")
	}
}

func logText(all []events.LogBatch) string {
	var out []string
	for _, b := range all {
		s := fmt.Sprintf("%d/%d", b.Epoch, b.First)
		for _, line := range b.Lines {
			s += " " + line.Text
		}
		out = append(out, s)
	}
	return strings.Join(out, "|")
}

func TestFollowLogGivesTheTailAndWhatComes(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, l *Log) {
		put := func(epoch int, first int64, text string) {
			t.Helper()
			if err := l.AppendLog(t.Context(), Place{org, job, epoch}, events.LogBatch{First: first, Lines: []events.LogLine{{Text: text}}}); err != nil {
				t.Fatal(err)
			}
		}
		for i := range 5 {
			put(1, int64(i+1), fmt.Sprint("old", i))
		}
		ctx, cancel := context.WithCancel(t.Context())
		var got []events.LogBatch
		done := make(chan error, 1)
		go func() {
			done <- l.FollowLog(ctx, LogQuery{Org: org, Job: job, Tail: 2}, func(b events.LogBatch) { got = append(got, b) })
		}()
		time.Sleep(time.Second)
		put(2, 1, "new")
		time.Sleep(time.Second)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if s := logText(got); s != "1/4 old3|1/5 old4|2/1 new" {
			t.Errorf("followed %q", s)
		}
	})
}
