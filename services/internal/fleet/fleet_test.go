package fleet

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spotferry/spotferry/bidder/trace"
	"github.com/spotferry/spotferry/services/internal/installation"
	"github.com/spotferry/spotferry/services/internal/machine"
	"github.com/spotferry/spotferry/services/internal/process"
	"github.com/spotferry/spotferry/services/internal/programs"
)

// The test's own binary is every program of the fleet, so that nothing has to be built.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "service" {
		os.Args = append([]string{os.Args[2]}, os.Args[3:]...)
		programs.Main(os.Args[0])
	}
	if len(os.Args) > 1 && os.Args[1] == "agent" {
		os.Args = os.Args[1:]
		process.Main(machine.RunAgent)
	}
	if len(os.Args) > 1 && os.Args[1] == "host" {
		if err := machine.Host(context.Background(), os.Args[2:]); err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func self(t *testing.T) string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return exe
}

func begin(t *testing.T, replicas int) *Fleet {
	t.Helper()
	f, err := Start(t.Context(), Config{
		Dir: filepath.Join(t.TempDir(), "fleet"), Spotferry: self(t), Replicas: replicas,
		Wish: installation.Wish{Scale: 240, Divide: 10, Market: trace.Spec{Kind: "demo", Seed: 1}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	return f
}

func TestAFleetStartsIsKilledGoesOnAndStops(t *testing.T) {
	t.Parallel()
	f := begin(t, 2)
	if n := len(f.Programs()); n != 2+2*len(Services()) {
		t.Errorf("%d programs", n)
	}
	for _, p := range f.Programs() {
		before := Proc{p.Pid(), p.StartTicks()}
		if !before.Alive() {
			t.Fatalf("%s, %+v, is not there", p, before)
		}
		p.Kill()
		if before.Alive() || p.Running() {
			t.Fatalf("%s outlives its kill", p)
		}
		if err := p.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		if p.Pid() == before.PID && p.StartTicks() == before.Start {
			t.Errorf("%s is the process it was", p)
		}
		if live, err := p.Admin(t.Context(), "/livez"); err != nil || live != "ok\n" {
			t.Errorf("%s: %q, %v", p, live, err)
		}
	}
	if f.Program("failover", 1) == nil || f.Program("failover", 2) != nil || f.Program("bus", 0) == nil {
		t.Error("slots are not by name and replica")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := f.Stop(ctx); err != nil {
		t.Error(err)
	}
	if left, err := f.Left(); err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	for _, p := range f.Programs() {
		b, err := os.ReadFile(p.Log())
		if err != nil || !strings.Contains(string(b), `"msg":"stopped"`) {
			t.Errorf("%s did not say that it stopped: %v", p, err)
		}
	}
}
