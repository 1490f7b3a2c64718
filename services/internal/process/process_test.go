package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"go.uber.org/zap"
)

func TestFlagsComeFromTheCommandLineAndThenFromTheEnvironment(t *testing.T) {
	t.Parallel()
	env := map[string]string{"SPOTFERRY_ADMIN": "127.0.0.1:1", "SPOTFERRY_LOG_LEVEL": "debug", "SPOTFERRY_COUNT": "many"}
	getenv := func(name string) string { return env[name] }
	for _, tc := range []struct {
		name  string
		args  []string
		count bool
		want  string // admin, level
		err   string
	}{
		{"nothing given", nil, false, "127.0.0.1:1 debug", ""},
		{"a flag wins", []string{"--admin", "127.0.0.1:2"}, false, "127.0.0.1:2 debug", ""},
		{"an empty flag wins, too", []string{"--admin="}, false, " debug", ""},
		{"no such flag", []string{"--colour"}, false, "", "colour"},
		{"a word", []string{"now"}, false, "", `"now" is no flag`},
		{"a variable that is no number", nil, true, "", "SPOTFERRY_COUNT"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			f := NewFlags("watcher", "watches", io.Discard)
			if tc.count {
				f.Int("count", 1, "")
			}
			err := f.Read(tc.args, getenv)
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) || !errors.Is(err, ErrUsage) {
					t.Errorf("Read = %v, want %q", err, tc.err)
				}
				return
			}
			if got := f.Admin + " " + f.LogLevel; err != nil || got != tc.want {
				t.Errorf("read %q, %v; want %q", got, err, tc.want)
			}
		})
	}
}

func TestExitCodes(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		err  error
		want int
	}{{nil, 0}, {pflag.ErrHelp, 0}, {fmt.Errorf("x: %w", ErrUsage), 2}, {errors.New("the disk"), 1}} {
		if got := code(tc.err, io.Discard); got != tc.want {
			t.Errorf("code(%v) = %d, want %d", tc.err, got, tc.want)
		}
	}
}

func TestLogsAreOneObjectALine(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	log, err := NewLogger(&b, "ledger", "info")
	if err != nil {
		t.Fatal(err)
	}
	log.Debug("not this")
	log.Info("settled", zap.Duration("took", 1500*time.Millisecond))
	if got := b.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, `"program":"ledger"`) || !strings.Contains(got, `"took":1.5`) {
		t.Errorf("wrote %q", got)
	}
	if _, err := NewLogger(&b, "ledger", "loud"); !errors.Is(err, ErrUsage) {
		t.Errorf("level loud: %v", err)
	}
}

func TestTheAdminPortTellsHowAProgramStands(t *testing.T) {
	t.Parallel()
	a, err := Listen("127.0.0.1:0", NewRegistry("ledger", "1.2.3"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx, zap.NewNop()) }()

	get := func(path string) (int, string) {
		resp, err := http.Get("http://" + a.Addr() + path)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(b)
	}
	expect := func(path string, status int, want string) {
		t.Helper()
		if code, body := get(path); code != status || !strings.Contains(body, want) {
			t.Errorf("%s answers %d %q, want %d with %q", path, code, body, status, want)
		}
	}
	expect("/readyz", 503, "[-]started: not yet")
	expect("/livez", 200, "ok")
	if err := Probe(t.Context(), a.Addr()); err == nil || !strings.Contains(err.Error(), "not yet") {
		t.Errorf("Probe = %v", err)
	}
	var away error
	a.SetReady([]Check{{"bus", func(context.Context) error { return away }}, {"store", func(context.Context) error { return nil }}})
	expect("/readyz?verbose", 200, "[+]bus ok\n[+]store ok\nok")
	expect("/readyz", 200, "ok")
	if err := Probe(t.Context(), a.Addr()); err != nil {
		t.Errorf("Probe = %v", err)
	}
	away = errors.New("the connection is RECONNECTING")
	expect("/readyz?verbose", 503, "[-]bus: the connection is RECONNECTING\n[+]store ok\nnot ready")
	expect("/livez", 200, "ok") // a bus that is away is no reason to restart
	expect("/metrics", 200, `spotferry_build_info{goversion="go`)

	file := filepath.Join(t.TempDir(), "admin")
	if err := a.WriteAddress(file); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(file); err != nil || string(b) != a.Addr()+"\n" {
		t.Errorf("the file says %q, %v", b, err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if _, err := Listen("nowhere:port", nil); err == nil || !strings.Contains(err.Error(), "--admin nowhere:port") {
		t.Errorf("Listen = %v", err)
	}
}
