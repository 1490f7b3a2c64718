package kills

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"github.com/spotferry/spotferry/services/internal/machine"
)

// TestMain is also every program of the run: the control plane, the landlord of a
// machine, its agent, and what the job's scripts start.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		if run, ok := programs()[os.Args[1]]; ok {
			signals := []os.Signal{syscall.SIGINT, syscall.SIGTERM}
			if os.Args[1] == "trainer" {
				signals = signals[:1] // it saves on the other
			}
			ctx, stop := signal.NotifyContext(context.Background(), signals...)
			code, err := run(ctx, os.Args[2:])
			stop()
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
			os.Exit(code)
		}
	}
	os.Exit(m.Run())
}

type program func(ctx context.Context, args []string) (exit int, err error)

func programs() map[string]program {
	plain := func(run func(context.Context, []string) error) program {
		return func(ctx context.Context, args []string) (int, error) {
			if err := run(ctx, args); err != nil {
				return 1, err
			}
			return 0, nil
		}
	}
	return map[string]program{
		"plane": plain(runPlane), "host": plain(machine.Host), "agent": plain(runAgent), "setup": plain(runSetup), "trainer": runTrainer,
	}
}
