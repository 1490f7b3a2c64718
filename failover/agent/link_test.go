package agent

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestExpectedUpload(t *testing.T) {
	var p pace
	if got := p.expect(unknownRate); got != time.Second {
		t.Errorf("of a store nobody measured: %v", got)
	}
	for range 19 {
		p.add(sent{100 << 20, time.Second})
	}
	p.add(sent{100 << 20, time.Minute})
	for bytes, want := range map[int64]time.Duration{100 << 20: time.Second, 50 << 20: time.Second, 300 << 20: 3 * time.Second} {
		if got := p.expect(bytes); got != want {
			t.Errorf("expect(%d) = %v, want %v: one in twenty may be slower", bytes, got, want)
		}
	}
}

func TestATailIsExpectedToTakeATailsTime(t *testing.T) {
	const MB = 1 << 20
	for _, tc := range []struct {
		name  string
		p     pace
		bytes int64
		want  time.Duration
	}{
		{"in proportion", pace{{1000 * MB, 100 * time.Second}}, 100 * MB, 10 * time.Second},
		{"but no less than trips are thought to take", pace{{1000 * MB, 100 * time.Second}}, MB, time.Second},
		{"or were seen to", pace{{1000 * MB, 100 * time.Second}, {1000, 300 * time.Millisecond}}, MB, 300 * time.Millisecond},
		{"tiny uploads say nothing of large ones", pace{{1000, 3 * time.Second}, {100 * MB, 10 * time.Second}}, 200 * MB, 20 * time.Second},
		{"unless there are no others", pace{{MB, time.Second}}, 100 * MB, 100 * time.Second},
		{"a few bytes in seconds do not make megabytes take hours", pace{{233, 3 * time.Second}}, 32*MB + 233, 4 * time.Second},
		{"one that had nothing to send took trips", pace{{0, time.Second}}, 0, time.Second},
	} {
		if got := tc.p.expect(tc.bytes); got != tc.want {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
}

func TestMoreBytesNeverTakeLess(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		one := sent{rapid.Int64Range(1, 1<<40).Draw(t, "bytes"), time.Duration(rapid.Int64Range(1, 1e12).Draw(t, "took"))}
		p := pace{one}
		a, b := rapid.Int64Range(0, 1<<40).Draw(t, "a"), rapid.Int64Range(0, 1<<40).Draw(t, "b")
		if a > b {
			a, b = b, a
		}
		if p.expect(a) > p.expect(b) {
			t.Fatalf("%d bytes %v, %d bytes %v", a, p.expect(a), b, p.expect(b))
		}
	})
}

func TestShare(t *testing.T) {
	const MB = 1 << 20
	s := share{percent: 50}
	if s.limit() != 0 {
		t.Error("limited before anything was measured")
	}
	if !s.took(sent{1000, time.Second}, 0) || s.limit() != 0 {
		t.Error("a small upload says nothing of the link")
	}
	s.took(sent{100 * MB, 10 * time.Second}, 0)
	if got := s.limit(); got != 5*MB {
		t.Errorf("limit %d, want half of what was seen", got)
	}
	for i := range remeasure - 1 {
		if s.limit() == 0 {
			t.Fatalf("without a limit after %d", i)
		}
		if s.took(sent{100 * MB, 20 * time.Second}, 5*MB) {
			t.Error("a limited upload is no measure of the link")
		}
	}
	if s.limit() != 0 {
		t.Errorf("the %dth has a limit", remeasure)
	}
	s.took(sent{100 * MB, 5 * time.Second}, 0)
	if got := s.limit(); got != 10*MB {
		t.Errorf("limit %d after the link became faster", got)
	}
	if !s.took(sent{100 * MB, 50 * time.Second}, 10*MB) || s.limit() != MB {
		t.Errorf("limit %d after the link became slower than it", s.limit())
	}
	if all := (&share{percent: 100, link: 10 * MB}).limit(); all != 0 {
		t.Errorf("all of the link is %d", all)
	}
	if got := (&share{percent: 25, link: 4 * MB}).steady(10*MB, time.Second); got != 10*time.Second {
		t.Errorf("10 MB at a quarter of 4 MB/s: %v", got)
	}
}

func TestInterval(t *testing.T) {
	const s, m, h = time.Second, time.Minute, time.Hour
	for _, tc := range []struct {
		name string
		r    rhythm
		want time.Duration
		long bool
	}{
		{"the trainer's own", rhythm{pause: s, reclaim: h}, 0, false},
		{"the job's", rhythm{set: 10 * m, pause: s, reclaim: h}, 10 * m, false},
		{"the job's, with uploads that do not follow", rhythm{set: 10 * m, flush: 15 * m}, 15 * m, true},
		{"Young's: the root of twice 2 s times 1 h", rhythm{auto: true, pause: 2 * s, reclaim: h}, 2 * m, false},
		{"no less than 30 s", rhythm{auto: true, reclaim: h}, 30 * s, false},
		{"no more than an hour", rhythm{auto: true, pause: m, reclaim: 1000 * h}, h, false},
		{"unless uploads take longer", rhythm{auto: true, pause: m, reclaim: 1000 * h, flush: 2 * h}, 2 * h, true},
		{"once an hour when nobody knows how often machines are taken", rhythm{auto: true, pause: m, flush: m}, h, false},
		{"soon, to see what a save costs", rhythm{auto: true, reclaim: h}, 30 * s, false},
	} {
		if got, long := tc.r.every(); got.Round(s) != tc.want || long != tc.long {
			t.Errorf("%s: %v, %v; want %v, %v", tc.name, got, long, tc.want, tc.long)
		}
	}
}
