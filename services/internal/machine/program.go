package machine

import (
	"context"
	"io"
	"os"

	"github.com/spotferry/spotferry/services/internal/process"
)

// RunAgent is the agent as a program of its own.
func RunAgent(ctx context.Context, args []string, stdout io.Writer) error {
	f := process.NewBareFlags("agent", "supervises one trainer on the machine it runs on", stdout)
	c := AgentConfig{Getenv: os.Getenv}
	f.StringVar(&c.UserData, "user-data", "", "file with the bootstrap; \"\": the machine's metadata service is asked")
	f.StringVar(&c.Dir, "dir", "", "directory for the job; \"\": $SPOTFERRY_MACHINE_DIR")
	if err := f.Read(args, os.Getenv); err != nil {
		return err
	}
	var err error
	if c.Log, err = process.NewLogger(os.Stderr, "agent", f.LogLevel); err != nil {
		return err
	}
	return Agent(ctx, c)
}
