package plane

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"

	"github.com/spotferry/spotferry/events/natsbus"
	"github.com/spotferry/spotferry/services/internal/console"
)

func bus(t *testing.T) *natsbus.Embedded {
	t.Helper()
	b, err := natsbus.Start(natsbus.EmbeddedConfig{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Shutdown)
	return b
}

func dial(t *testing.T, b *natsbus.Embedded) *nats.Conn {
	t.Helper()
	nc, err := natsbus.Connect(natsbus.ConnConfig{Server: b, Name: t.Name()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// server is something that answers on sf.test, in a queue with others of its kind.
func server(t *testing.T, b *natsbus.Embedded, drain time.Duration, answer func(context.Context, string) (string, error)) (stop func()) {
	t.Helper()
	g := &ground{Config: Config{Conn: dial(t, b), Logger: zap.NewNop(), Parallel: 4, Drain: drain}}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = g.serving("tests", "sf.test", "q").run(ctx, func(ctx context.Context, m *nats.Msg) []byte {
			return answered(m.Data, func(q string) (string, error) { return answer(ctx, q) })
		})
	}()
	return func() { cancel(); <-ended }
}

func question(t *testing.T, nc *nats.Conn, q string) (string, error) {
	t.Helper()
	for range 200 { // until somebody listens
		a, err := asked[string](t.Context(), nc, "sf.test", q)
		if err == nil || !strings.Contains(err.Error(), "nobody answers") {
			return a, err
		}
		time.Sleep(10 * time.Millisecond)
	}
	return "", errors.New("nobody came")
}

func TestProgramsAskEachOther(t *testing.T) {
	t.Parallel()
	b := bus(t)
	nc := dial(t, b)
	if _, err := asked[string](t.Context(), nc, "sf.test", "anybody?"); err == nil || !strings.Contains(err.Error(), "is that program running?") {
		t.Errorf("with nobody there: %v", err)
	}
	problem := &console.Problem{Code: "impossible", Message: "no offer fits"}
	stop := server(t, b, 0, func(_ context.Context, q string) (string, error) {
		switch q {
		case "trouble":
			return "", errors.New("the disk is full")
		case "problem":
			return "", problem
		}
		return "you said " + q, nil
	})
	defer stop()
	if a, err := question(t, nc, "hello"); err != nil || a != "you said hello" {
		t.Errorf("%q, %v", a, err)
	}
	if _, err := question(t, nc, "trouble"); err == nil || err.Error() != "the disk is full" {
		t.Errorf("an error arrives as %v", err)
	}
	_, err := question(t, nc, "problem")
	var p *console.Problem
	if !errors.As(err, &p) || *p != *problem {
		t.Errorf("a problem arrives as %v", err)
	}
	if _, err := asked[string](t.Context(), nc, "sf.test", 7); err == nil {
		t.Error("a number was taken for text")
	}
}

func TestWhatIsUnderWayIsAnsweredAfterAStop(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		drain time.Duration
		want  string // "": no answer
	}{
		{"with time to drain", time.Minute, "done"},
		{"without", 0, "cut off"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			b := bus(t)
			begun, goOn := make(chan struct{}), make(chan struct{})
			stop := server(t, b, tc.drain, func(ctx context.Context, q string) (string, error) {
				if q == "hello" {
					return q, nil
				}
				close(begun)
				select {
				case <-goOn:
					return "done", nil
				case <-ctx.Done():
					return "cut off", nil
				}
			})
			nc := dial(t, b)
			if _, err := question(t, nc, "hello"); err != nil {
				t.Fatal(err)
			}
			got := make(chan string, 1)
			go func() {
				a, err := asked[string](t.Context(), nc, "sf.test", "slow")
				if err != nil {
					a = err.Error()
				}
				got <- a
			}()
			<-begun
			stopped := make(chan struct{})
			go func() { stop(); close(stopped) }()
			if tc.drain > 0 {
				close(goOn)
			}
			if a := <-got; a != tc.want {
				t.Errorf("answered %q, want %q", a, tc.want)
			}
			<-stopped
		})
	}
}

// A process that stood still has not heard what was said meanwhile.
func TestSilenceIsJudgedFromWhenThisProcessCouldHear(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	start := now
	c := &contact{conn: dial(t, bus(t)), now: func() time.Time { return now }, since: now, pause: 3 * time.Second}
	for range 5 {
		now = now.Add(time.Second)
		if got := c.unbroken(); !got.Equal(start) {
			t.Errorf("after %s it has heard since %s", now.Sub(start), got.Sub(start))
		}
	}
	now = now.Add(10 * time.Second) // SIGSTOP, and SIGCONT
	woke := now
	if got := c.unbroken(); !got.Equal(woke) {
		t.Errorf("after it stood still it has heard since %s", got.Sub(start))
	}
	now = now.Add(time.Second)
	if got := c.unbroken(); !got.Equal(woke) {
		t.Errorf("a second later it has heard since %s", got.Sub(start))
	}
}
