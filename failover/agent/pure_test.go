package agent

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/spotferry/spotferry/events"
)

func TestPlan(t *testing.T) {
	s := time.Second
	for _, tc := range []struct {
		name string
		o    outlook
		want plan
	}{
		{"time for a fresh save", outlook{left: 30 * s, margin: 3 * s, asks: true, save: 5 * s, upload: 10 * s, whole: 10 * s}, freshSave},
		{"to the second", outlook{left: 18 * s, margin: 3 * s, asks: true, save: 5 * s, upload: 10 * s, whole: 10 * s}, freshSave},
		{"a second too little, and nothing to ship", outlook{left: 17 * s, margin: 3 * s, asks: true, save: 5 * s, upload: 10 * s, whole: 10 * s}, nothing},
		{"a second too little, the newest is half sent", outlook{left: 17 * s, margin: 3 * s, asks: true, save: 5 * s, upload: 10 * s, whole: 10 * s, unsent: 5 * s}, shipNewest},
		{"files go while they are watched", outlook{left: 16 * s, margin: 3 * s, asks: true, save: 5 * s, still: 2 * s, upload: 10 * s, whole: 10 * s}, freshSave},
		{"but not before they are written", outlook{left: 15 * s, margin: 3 * s, asks: true, save: 5 * s, still: 2 * s, upload: 10 * s, whole: 10 * s}, nothing},
		{"a long save leaves only its tail", outlook{left: 30 * s, margin: 3 * s, asks: true, save: 25 * s, still: 2 * s, upload: 2 * s, whole: 20 * s}, freshSave},
		{"a trainer that cannot be asked", outlook{left: 30 * s, margin: 3 * s, upload: s, unsent: 5 * s}, shipNewest},
		{"neither fits", outlook{left: 5 * s, margin: s, asks: true, save: 5 * s, upload: s, unsent: 6 * s}, nothing},
		{"all is committed, nothing can be asked", outlook{left: 30 * s, margin: 3 * s}, nothing},
		{"a deadline in the past", outlook{left: -s, margin: s, asks: true, unsent: s}, nothing},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := tc.o.choose(); got != tc.want {
				t.Errorf("choose = %s, want %s", got, tc.want)
			}
		})
	}
}

func TestPlanNeverBeginsWhatCannotFinish(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := func(name string) time.Duration { return time.Duration(rapid.Int64Range(-1e12, 1e12).Draw(t, name)) }
		o := outlook{left: d("left"), margin: max(d("margin"), 0), asks: rapid.Bool().Draw(t, "asks"),
			save: max(d("save"), 0), still: max(d("still"), 0), upload: max(d("upload"), 0), whole: max(d("whole"), 0), unsent: max(d("unsent"), 0)}
		switch o.choose() {
		case freshSave:
			if !o.asks || o.save > o.left || o.save+min(o.upload, o.whole)-o.still > o.left {
				t.Fatalf("fresh: %+v", o)
			}
		case shipNewest:
			if o.unsent == 0 || o.unsent > o.left {
				t.Fatalf("newest: %+v", o)
			}
		}
	})
}

func TestStanding(t *testing.T) {
	timers := events.DefaultTimers()
	at := func(d time.Duration) time.Duration { return time.Hour + d }
	s := standing{}.renewed(at(0), 5*time.Minute)
	for _, tc := range []struct {
		name  string
		s     standing
		now   time.Duration
		need  time.Duration
		holds bool
		ends  bool
	}{
		{"just renewed", s, at(0), time.Minute, true, false},
		{"a moment before the hold lapses", s, at(30*time.Second - 1), time.Minute, true, false},
		{"the hold counts from when the renewal was sent", s, at(30 * time.Second), time.Minute, false, false},
		{"saving begins in time to be over by then", s, at(4 * time.Minute), time.Minute, false, true},
		{"not before", s, at(4*time.Minute - 1), time.Minute, false, false},
		{"without a limit silence decides", s.renewed(at(0), 0), at(15*time.Minute - 1), time.Hour, false, false},
		{"and then it does", s.renewed(at(0), 0), at(15 * time.Minute), 0, false, true},
		{"an answer overtaken by a later one changes nothing", s.renewed(at(-time.Minute), time.Second), at(0), 0, true, false},
		{"paid for a moment, with contact", s.renewed(at(0), 1), at(10 * time.Second), time.Minute, true, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := tc.s.holds(tc.now, timers); got != tc.holds {
				t.Errorf("holds = %v", got)
			}
			if got, _ := tc.s.ends(tc.now, tc.need, timers); got != tc.ends {
				t.Errorf("ends = %v", got)
			}
		})
	}
}

func TestDeadline(t *testing.T) {
	for _, tc := range []struct {
		name string
		w    Warning
		want time.Duration
	}{
		{"as the answer says", Warning{Left: 40 * time.Second, Known: true}, 40 * time.Second},
		{"never more than the seller gives", Warning{Left: time.Hour, Known: true}, 2 * time.Minute},
		{"never less than nothing", Warning{Left: -time.Hour, Known: true}, 0},
		{"what the seller gives if the answer does not say", Warning{}, 2 * time.Minute},
	} {
		if got := deadline(time.Hour, tc.w, 2*time.Minute) - time.Hour; got != tc.want {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
}

func TestShellExit(t *testing.T) {
	for in, want := range map[Exit]Exit{
		{Code: 0}: {Code: 0}, {Code: 1}: {Code: 1}, {Code: 128}: {Code: 128}, {Code: 255}: {Code: 255},
		{Code: 137}: {Code: -1, Signal: "SIGKILL"}, {Code: 143}: {Code: -1, Signal: "SIGTERM"}, {Code: 139}: {Code: -1, Signal: "SIGSEGV"},
		{Code: -1, Signal: "SIGINT"}: {Code: -1, Signal: "SIGINT"},
	} {
		if got := shellExit(in); got != want {
			t.Errorf("%+v: %+v, want %+v", in, got, want)
		}
	}
}

func TestLines(t *testing.T) {
	long := strings.Repeat("x", maxLine)
	for _, tc := range []struct {
		name string
		in   []string
		want []string
	}{
		{"lines", []string{"a\nb\n"}, []string{"a", "b"}},
		{"a line in pieces", []string{"a", "b", "\n"}, []string{"ab"}},
		{"the last line has no end", []string{"a\nb"}, []string{"a", "b"}},
		{"empty lines stay", []string{"\n\na\n"}, []string{"", "", "a"}},
		{"line ends of other systems", []string{"a\r", "\nb\r\n"}, []string{"a", "b"}},
		{"a progress bar is its last state", []string{"1%\r", "50%\r99%", "\r100%\n"}, []string{"100%"}},
		{"what is not UTF-8 is replaced", []string{"a\xff\xfeb\n"}, []string{"a\uFFFDb"}},
		{"a line without end is cut", []string{long, long, "y\n"}, []string{long, long, "y"}},
		{"just the longest", []string{long + "\n"}, []string{long}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var got []string
			l := &lines{take: func(s string) { got = append(got, s) }}
			for _, s := range tc.in {
				if n, err := l.Write([]byte(s)); n != len(s) || err != nil {
					t.Fatal(n, err)
				}
			}
			l.Flush()
			if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", tc.want) {
				t.Errorf("%.80q, want %.80q", got, tc.want)
			}
		})
	}
}

// TestLinesDoNotDependOnPieces cuts one text in any way.
func TestLinesDoNotDependOnPieces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.SliceOf(rapid.SampledFrom([]byte("ab\r\n\n\xff"))).Draw(t, "text")
		var whole, pieces []string
		w := &lines{take: func(s string) { whole = append(whole, s) }}
		w.Write(text)
		w.Flush()
		p := &lines{take: func(s string) { pieces = append(pieces, s) }}
		for rest := text; len(rest) > 0; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "n")
			p.Write(rest[:n])
			rest = rest[n:]
		}
		p.Flush()
		if fmt.Sprintf("%q", whole) != fmt.Sprintf("%q", pieces) {
			t.Fatalf("%q at once, %q in pieces", whole, pieces)
		}
	})
}

// TestLogNumbering takes batches in every order of arrival, loss and overflow,
// and counts.
func TestLogNumbering(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := newLogs(1, time.Now, nil)
		l.most = 50
		written, arrived, told := int64(0), map[int64]bool{}, int64(0)
		write := func(n int) {
			for range n {
				written++
				l.add("stdout", fmt.Sprint(written))
			}
		}
		for range rapid.IntRange(1, 30).Draw(t, "rounds") {
			write(rapid.SampledFrom([]int{0, 1, 10, 45, 120}).Draw(t, "write"))
			b, ok := l.batch()
			if !ok {
				continue
			}
			for i, line := range b.Lines {
				if n := b.First + int64(i); line.Text != fmt.Sprint(n) {
					t.Fatalf("line %d is %q", n, line.Text)
				}
			}
			write(rapid.SampledFrom([]int{0, 0, 53}).Draw(t, "meanwhile"))
			switch rapid.SampledFrom([]string{"arrives", "arrives unanswered", "refused"}).Draw(t, "fate") {
			case "arrives":
				for i := range b.Lines {
					arrived[b.First+int64(i)] = true
				}
				told += b.Lost
				l.taken(b, true)
			case "refused":
				l.taken(b, false)
			}
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		if total := int64(len(arrived)) + told + l.lost + int64(len(l.waiting)); total != written {
			t.Fatalf("%d arrived, %d told lost, %d lost, %d waiting: %d of %d", len(arrived), told, l.lost, len(l.waiting), total, written)
		}
	})
}

func TestABatchFitsAMessage(t *testing.T) {
	l := newLogs(1, time.Now, nil)
	for range 200 {
		l.add("stdout", strings.Repeat("\x01", maxLine)) // six bytes each in JSON
	}
	for {
		b, ok := l.batch()
		if !ok {
			break
		}
		if n := jsonLen(t, b); n > 1<<20 {
			t.Fatalf("%d bytes", n)
		}
		l.taken(b, true)
	}
}

func TestParseActionNeverPanics(t *testing.T) {
	good := `{"action": "terminate", "time": "2026-11-30T12:23:40Z"}`
	w, err := parseAction([]byte(good), "Mon, 30 Nov 2026 12:21:40 GMT")
	if err != nil || w.Action != "terminate" || !w.Known || w.Left != 119*time.Second {
		t.Errorf("%+v, %v", w, err)
	}
	for _, bad := range []string{"", "null", "[]", "<html>", `{"action":7}`, `{"time":"2026-11-30T12:23:40Z"}`, "{", string(bytes.Repeat([]byte("["), 100_000))} {
		if w, err := parseAction([]byte(bad), ""); err == nil {
			t.Errorf("%.40q: %+v", bad, w)
		}
	}
	for _, odd := range []string{`{"action":"stop","time":"soon"}`, `{"action":"stop","time":"9999-99-99T00:00:00Z"}`} {
		if w, err := parseAction([]byte(odd), "Mon, 30 Nov 2026 12:21:40 GMT"); err != nil || w.Known {
			t.Errorf("%s: %+v, %v", odd, w, err)
		}
	}
}

func TestParseSignal(t *testing.T) {
	for _, ok := range []string{"", "SIGUSR1", "SIGTERM", "SIGINT"} {
		if _, err := parseSignal(ok); err != nil {
			t.Error(err)
		}
	}
	for _, bad := range []string{"SIGKILL", "SIGSTOP", "9", "usr1", "SIGNONSENSE"} {
		if _, err := parseSignal(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}
