package dev

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// An ordinary end is no trouble: nothing of it is a warning. While it runs, the
// admin port tells what every service knows.
func TestASystemIsOperatedAndEndsWithoutAWarning(t *testing.T) {
	cfg := config(filepath.Join(t.TempDir(), "state"))
	logFile := filepath.Join(t.TempDir(), "log")
	out, err := os.Create(logFile)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cfg.Logger = zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), zapcore.Lock(out), zap.InfoLevel))
	ready := make(chan struct{})
	cfg.Now, cfg.Admin, cfg.Divide, cfg.Ready = time.Now, "127.0.0.1:0", 10, func() { close(ready) }
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, cfg) }()
	select {
	case <-ready:
	case err := <-ended:
		t.Fatal(err)
	}
	addr := adminAddr(t, logFile)
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		code, text := get(t, addr, "/readyz?verbose")
		if code == http.StatusOK && strings.Contains(text, "[+]streams ok") && strings.Contains(text, "[+]feed age ok") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("not ready: %s", text)
		}
	}
	_, text := get(t, addr, "/metrics")
	for _, name := range []string{"spotferry_build_info", "spotferry_offers", "spotferry_price_dollars", "spotferry_ledger_lag_seconds", "spotferry_consumer_pending", "spotferry_provider_calls_total"} {
		if !strings.Contains(text, name) {
			t.Errorf("%s is not exported", name)
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	b, err := os.ReadFile(logFile)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		var said struct{ Level, Msg string }
		if json.Unmarshal([]byte(line), &said) != nil || said.Level == "warn" || said.Level == "error" {
			t.Errorf("it said: %s", line)
		}
	}
}

func adminAddr(t *testing.T, logFile string) string {
	t.Helper()
	b, err := os.ReadFile(logFile)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		var said struct{ Msg, Addr string }
		if json.Unmarshal([]byte(line), &said) == nil && said.Msg == "admin port open" {
			return said.Addr
		}
	}
	t.Fatalf("the log does not tell where the admin port is: %s", b)
	return ""
}

func get(t *testing.T, addr, path string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+addr+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
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
