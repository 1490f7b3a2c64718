package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/services/internal/console"
	"github.com/spotferry/spotferry/services/internal/terminal"
)

var update = flag.Bool("update", false, "write testdata/*.golden anew")

// answers is a system made of canned answers: what each verb is answered with,
// given the request's body. A *console.Problem among them refuses.
type answers map[console.Verb]func(body []byte) any

func always(v any) func([]byte) any { return func([]byte) any { return v } }

// rig is a command line and the system that it talks to.
type rig struct {
	t     *testing.T
	nc    *nats.Conn
	env   func(string) string
	stdin io.Reader
	tty   bool
	tune  func(e *environment)

	mu    sync.Mutex
	away  bool // nobody can be reached
	asked []console.Verb
	sent  map[console.Verb][]byte // the newest body of each verb
}

func newRig(t *testing.T, a answers) *rig {
	t.Helper()
	s, err := server.NewServer(&server.Options{DontListen: true, NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	nc, err := nats.Connect("", nats.InProcessServer(s))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close(); s.Shutdown(); s.WaitForShutdown() })
	r := &rig{t: t, nc: nc, env: func(k string) string { return map[string]string{"HOME": "/home/alice"}[k] }, sent: map[console.Verb][]byte{}}
	_, err = nc.Subscribe("sf.api.*.*.*", func(m *nats.Msg) {
		verb := console.Verb(m.Subject[strings.LastIndexByte(m.Subject, '.')+1:])
		r.mu.Lock()
		r.asked, r.sent[verb] = append(r.asked, verb), m.Data
		f := a[verb]
		r.mu.Unlock()
		_ = m.Respond(encode(t, f, m.Data))
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func encode(t *testing.T, f func([]byte) any, body []byte) []byte {
	var v any = &console.Problem{Code: "internal", Message: "this test has no answer to that"}
	if f != nil {
		v = f(body)
	}
	out := map[string]any{"value": v}
	if p, refused := v.(*console.Problem); refused {
		out = map[string]any{"problem": p}
	}
	b, err := json.Marshal(out)
	if err != nil {
		t.Error(err)
	}
	return b
}

func (r *rig) open(context.Context, string, bool) (session, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.away {
		return session{}, errors.New("/home/alice/.local/state/spotferry: no system runs on this state; start 'spotferry dev'")
	}
	return session{client: console.NewClient(r.nc, console.Admin, "alice"), close: func() {}}, nil
}

func (r *rig) setAway(away bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.away = away
}

// ask counts how often a verb was asked.
func (r *rig) ask(v console.Verb) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, a := range r.asked {
		if a == v {
			n++
		}
	}
	return n
}

type result struct {
	code     int
	out, err string
}

func (r *rig) run(args ...string) result {
	r.t.Helper()
	return r.runIn(r.t.Context(), args...)
}

func (r *rig) runIn(ctx context.Context, args ...string) result {
	r.t.Helper()
	var out, errs bytes.Buffer
	code := r.environment(&out, &errs).execute(ctx, args)
	return result{code, out.String(), errs.String()}
}

func (r *rig) environment(out, errs io.Writer) *environment {
	stdin := r.stdin
	if stdin == nil {
		stdin = strings.NewReader("")
	}
	e := newEnvironment(stdin, out, errs, r.env)
	e.term.InTTY, e.term.OutTTY, e.term.ErrTTY = r.tty, r.tty, r.tty
	e.now = func() time.Time { return now }
	e.term.Now = e.now
	e.version, e.open = "v1.2.3", r.open
	e.pack = func(context.Context, string) (events.Archive, error) {
		return events.Archive{}, errors.New(`workdir .: "fifo" is a named pipe`)
	}
	e.mint = func() events.JobID { return cannedJob }
	e.poll, e.timeout, e.patience = time.Millisecond, 5*time.Second, 2*time.Minute
	if r.tune != nil {
		r.tune(e)
	}
	return e
}

// golden compares with testdata/name.golden.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s is\n%s\nwant\n%s", name, got, want)
	}
}

// hostile is text that a job would like to reach a terminal.
const hostile = "evil\nspotferry: forged\x1b[2J\x1b]0;owned\x07\u202egnp.exe"

// unsafeIn says whether s would act on a terminal.
func unsafeIn(s string) bool {
	if strings.HasPrefix(s, "spotferry: forged") || strings.Contains(s, "\nspotferry: forged") {
		return true // a line of its own that is not ours
	}
	return strings.ContainsFunc(s, func(c rune) bool { return c != '\n' && c != '\t' && terminal.Hidden(c) })
}
