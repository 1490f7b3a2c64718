package process

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"
)

// Check is one thing that has to be so for a program to do its work.
type Check struct {
	Name string
	Test func(ctx context.Context) error
}

// Admin is a program's port for those who operate it: /metrics, /livez, /readyz.
// Livez says that the program's own loop goes round, and nothing about anybody
// else: who restarts a program because the bus is away makes it worse. Readyz says whether
// the program can do its work now; ?verbose names each check.
type Admin struct {
	listener net.Listener
	server   *http.Server
	checks   []Check

	mu    sync.Mutex
	beat  time.Time // the loop's newest round
	ready bool      // the program has started
}

const (
	beatEvery  = time.Second
	beatLate   = 15 * time.Second
	checkLimit = 3 * time.Second
	closeLimit = 2 * time.Second
)

// Listen opens the port. The program is not ready before SetReady.
func Listen(addr string, g prometheus.Gatherer) (*Admin, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("--admin %s: %w: choose another host:port", addr, err)
	}
	a := &Admin{listener: l, beat: time.Now()}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(g, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError, Timeout: 10 * time.Second}))
	mux.HandleFunc("GET /livez", a.livez)
	mux.HandleFunc("GET /readyz", a.readyz)
	a.server = &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, MaxHeaderBytes: 16 << 10}
	return a, nil
}

// Addr is where it listens.
func (a *Admin) Addr() string { return a.listener.Addr().String() }

// WriteAddress tells whoever started the program where the port is: a reader of
// the file sees the whole line or no file. "" is no file.
func (a *Admin) WriteAddress(path string) error {
	if path == "" {
		return nil
	}
	tmp := path + ".new"
	if err := os.WriteFile(tmp, []byte(a.Addr()+"\n"), 0o600); err != nil {
		return fmt.Errorf("--admin-file: %w", err)
	}
	return os.Rename(tmp, path)
}

// SetReady says that the program has started, and what has to hold from now on.
func (a *Admin) SetReady(checks []Check) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.checks, a.ready = checks, true
}

// Run serves until ctx ends, and returns nil then.
func (a *Admin) Run(ctx context.Context, log *zap.Logger) error {
	ended := make(chan error, 1)
	go func() { ended <- a.server.Serve(a.listener) }()
	log.Info("admin port open", zap.String("addr", a.Addr()))
	tick := time.NewTicker(beatEvery)
	defer tick.Stop()
	for {
		select {
		case err := <-ended:
			return fmt.Errorf("serving the admin port: %w", err)
		case <-tick.C:
			a.mu.Lock()
			a.beat = time.Now()
			a.mu.Unlock()
		case <-ctx.Done():
			// The caller's context has ended, and answers under way may still go out.
			sctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeLimit)
			defer cancel()
			err := errors.Join(a.server.Shutdown(sctx), a.server.Close())
			<-ended
			if err != nil {
				log.Debug("admin port closed on somebody", zap.Error(err))
			}
			return nil
		}
	}
}

func (a *Admin) livez(w http.ResponseWriter, _ *http.Request) {
	a.mu.Lock()
	late := time.Since(a.beat)
	a.mu.Unlock()
	if late > beatLate {
		http.Error(w, fmt.Sprintf("the loop stands still for %s", late.Round(time.Second)), http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ok")
}

func (a *Admin) readyz(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	checks, ready := a.checks, a.ready
	a.mu.Unlock()
	ctx, cancel := context.WithTimeout(r.Context(), checkLimit)
	defer cancel()
	var lines strings.Builder
	if !ready {
		fmt.Fprintln(&lines, "[-]started: not yet")
	}
	for _, c := range checks {
		if err := c.Test(ctx); err != nil {
			ready = false
			fmt.Fprintf(&lines, "[-]%s: %v\n", c.Name, err)
			continue
		}
		fmt.Fprintf(&lines, "[+]%s ok\n", c.Name)
	}
	word, status := "ok", http.StatusOK
	if !ready {
		word, status = "not ready", http.StatusServiceUnavailable
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	if _, verbose := r.URL.Query()["verbose"]; verbose || !ready {
		fmt.Fprint(w, lines.String())
	}
	fmt.Fprintln(w, word)
}
