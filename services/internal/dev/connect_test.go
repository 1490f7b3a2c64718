package dev

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"

	"github.com/spotferry/spotferry/checkpoint/storetest/s3server"
	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/events/natsbus"
	"github.com/spotferry/spotferry/services/internal/console"
	"github.com/spotferry/spotferry/services/internal/storage"
)

func TestWhatCannotBeOpened(t *testing.T) {
	empty, made, held := t.TempDir(), t.TempDir(), t.TempDir()
	for _, dir := range []string{made, held} {
		if _, err := (layout{dir}).establish(config(dir)); err != nil {
			t.Fatal(err)
		}
	}
	release, err := layout{held}.lock()
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	for _, tc := range []struct {
		name     string
		dir      string
		readable bool
		is       error
		says     string
	}{
		{"a directory that is not there", filepath.Join(empty, "none"), true, ErrNoState, "spotferry dev --state"},
		{"a directory without a state", empty, true, ErrNoState, "spotferry dev --state"},
		{"a state that nothing runs on, to change something", made, false, ErrNotRunning, "spotferry dev --state"},
		{"a state in use whose credential is missing", held, true, os.ErrNotExist, "user.creds"},
	} {
		_, err := Open(t.Context(), tc.dir, tc.readable)
		if !errors.Is(err, tc.is) || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %v; want %v and %q", tc.name, err, tc.is, tc.says)
		}
	}
	if entries, err := os.ReadDir(empty); err != nil || len(entries) > 0 {
		t.Errorf("looking left %v, %v", entries, err)
	}
}

// TestASystemIsAskedWhileItRunsAndReadWhenItDoesNot goes once through the life of a state directory.
func TestASystemIsAskedWhileItRunsAndReadWhenItDoesNot(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ready, done := make(chan struct{}), make(chan error, 1)
	cfg := Config{Dir: dir, Version: "1.2.3", Now: time.Now, Logger: zap.NewNop(), Scale: 240, Divide: 10, Ready: func() { close(ready) }}
	go func() { done <- Run(ctx, cfg) }()
	select {
	case <-ready:
	case err := <-done:
		t.Fatal(err)
	}
	s, err := Open(t.Context(), dir, true)
	if err != nil {
		t.Fatal(err)
	}
	if clock, err := console.Ask[console.Clock](t.Context(), s.Client, console.GetClock, nil); err != nil || s.ReadOnly || clock.Version != "1.2.3" {
		t.Errorf("clock %+v, read-only %v, %v", clock, s.ReadOnly, err)
	}
	hurried, hurry := context.WithCancel(t.Context())
	hurry()
	if err := Run(hurried, Config{Dir: dir, Logger: zap.NewNop()}); !errors.Is(err, ErrRunning) {
		t.Errorf("a second system: %v", err)
	}
	s.Close()
	visitors(t, dir)
	cancel()
	if err := <-done; err != nil {
		t.Fatalf("asked to stop: %v", err)
	}

	first, err := Open(t.Context(), dir, true)
	if err != nil {
		t.Fatal(err)
	}
	type opened struct {
		*Session
		err error
	}
	second := make(chan opened)
	go func() { // two commands that read at the same time take turns
		s, err := Open(t.Context(), dir, true)
		second <- opened{s, err}
	}()
	first.Close()
	got := <-second
	if got.err != nil {
		t.Fatal(got.err)
	}
	s = got.Session
	defer s.Close()
	if jobs, err := console.Ask[[]console.Job](t.Context(), s.Client, console.GetJobs, nil); err != nil || jobs == nil || !s.ReadOnly {
		t.Errorf("jobs %v, read-only %v, %v", jobs, s.ReadOnly, err)
	}
	var p *console.Problem
	request := console.SubmitRequest{ID: "01jx3kr0zr5v9m2c7t4b6n0d9e", Spec: events.JobSpec{Policy: events.Policy{Budget: events.Dollar}}}
	if _, err := console.Ask[console.Job](t.Context(), s.Client, console.DoSubmit, request); !errors.As(err, &p) || p.Code != "unavailable" {
		t.Errorf("submitting: %v", err)
	}
}

// visitors ask the running system with credentials of their own, through the
// state directory and over the bus alone.
func visitors(t *testing.T, dir string) {
	t.Helper()
	url, err := os.ReadFile(natsbus.URLFile(filepath.Join(dir, "bus")))
	if err != nil {
		t.Fatal(err)
	}
	op, err := natsbus.OpenOperator(natsbus.OperatorConfig{Dir: filepath.Join(dir, "operator"), Entropy: rand.Reader, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		role console.Role
		want string
	}{{console.Viewer, "forbidden"}, {console.Operator, ""}} {
		creds, err := op.Person("ann", string(tc.role), natsbus.Validity{From: time.Now()})
		if err != nil {
			t.Fatal(err)
		}
		text, err := creds.Text()
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "ann.creds")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		here, err := OpenAs(t.Context(), dir, file, false)
		if err != nil {
			t.Fatal(err)
		}
		there, err := Dial(strings.TrimSpace(string(url)), file)
		if err != nil {
			t.Fatal(err)
		}
		for name, s := range map[string]*Session{"state directory": here, "bus": there} {
			var p *console.Problem
			o, err := console.Ask[console.Ops](t.Context(), s.Client, console.DoFreeze, console.FreezeRequest{Reason: "try"})
			refused := errors.As(err, &p) && p.Code == tc.want
			taken := err == nil && tc.want == "" && o.Freeze.By == "ann"
			if !refused && !taken {
				t.Errorf("%s, by the %s: %+v, %v", tc.role, name, o, err)
			}
		}
		here.Close()
		there.Close()
	}
	if other, err := natsbus.OpenOperator(natsbus.OperatorConfig{Dir: t.TempDir(), Entropy: rand.Reader, Now: time.Now}); err != nil {
		t.Fatal(err)
	} else if creds, err := other.Person("eve", string(console.Admin), natsbus.Validity{From: time.Now()}); err != nil {
		t.Fatal(err)
	} else {
		text, _ := creds.Text()
		file := filepath.Join(t.TempDir(), "eve.creds")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Dial(strings.TrimSpace(string(url)), file); !errors.Is(err, nats.ErrAuthorization) {
			t.Errorf("credentials of another installation: %v", err)
		}
	}
	none := filepath.Join(t.TempDir(), "none.creds")
	if _, err := OpenAs(t.Context(), dir, none, false); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("credentials that are not there: %v", err)
	}
	if _, err := Dial("nats://127.0.0.1:1", filepath.Join(dir, "user.creds")); !errors.Is(err, console.ErrUnreachable) {
		t.Errorf("a bus that is not there: %v", err)
	}
}

func TestAWorkdirIsKeptOnceUnderTheNameOfItsContent(t *testing.T) {
	dir := t.TempDir()
	pack := func(text string) func(io.Writer) error {
		return func(w io.Writer) error { _, err := io.WriteString(w, text); return err }
	}
	if _, err := StoreWorkdir(t.Context(), dir, pack("")); !errors.Is(err, ErrNoState) {
		t.Errorf("without a state: %v", err)
	}
	if _, err := (layout{dir}).establish(config(dir)); err != nil {
		t.Fatal(err)
	}
	write := func(text string) events.Archive {
		t.Helper()
		a, err := StoreWorkdir(t.Context(), dir, pack(text))
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	first, again, other := write("print(1)"), write("print(1)"), write("print(2)")
	if first != again || first == other || first.Bytes == 0 || !strings.Contains(first.Object, first.Hash) {
		t.Errorf("%+v\n%+v\n%+v", first, again, other)
	}
	objects := 0
	err := filepath.WalkDir(filepath.Join(dir, "store"), func(path string, d os.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".tar") {
			objects++
		}
		return err
	})
	if err != nil || objects != 2 {
		t.Errorf("the store has %d archives, %v; want 2", objects, err)
	}
	if _, err := StoreWorkdir(t.Context(), dir, func(io.Writer) error { return os.ErrNotExist }); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a workdir that cannot be packed: %v", err)
	}
}

func TestAWorkdirGoesIntoTheStoreThatMachinesRead(t *testing.T) {
	server := s3server.Start(t)
	bucket := server.Bucket(t)
	t.Setenv("AWS_ACCESS_KEY_ID", server.Access)
	t.Setenv("AWS_SECRET_ACCESS_KEY", server.Secret)
	url := "s3://" + bucket + "/jobs?endpoint=" + server.URL
	dir := t.TempDir()
	cfg := config(dir)
	cfg.Store = url
	if _, err := (layout{dir}).establish(cfg); err != nil {
		t.Fatal(err)
	}
	a, err := StoreWorkdir(t.Context(), dir, func(w io.Writer) error { _, err := io.WriteString(w, "print(1)"); return err })
	if err != nil {
		t.Fatal(err)
	}
	store, err := storage.Open(t.Context(), url, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if size, err := store.Stat(t.Context(), a.Object); err != nil || size != a.Bytes {
		t.Errorf("%s has %d bytes there, %v", a.Object, size, err)
	}
}
