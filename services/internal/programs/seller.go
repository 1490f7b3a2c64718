package programs

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/bidder/provider/local"
	"github.com/spotferry/spotferry/bidder/provider/remote"
	"github.com/spotferry/spotferry/services/internal/installation"
	"github.com/spotferry/spotferry/services/internal/machine"
	"github.com/spotferry/spotferry/services/internal/process"
)

// hostWord makes the seller's own program the landlord of one machine.
const hostWord = "host"

// providerLocal sells processes of this machine. Each is kept by a process of
// its own, which outlives the seller.
func providerLocal(ctx context.Context, args []string, stdout io.Writer) error {
	if len(args) > 0 && args[0] == hostWord {
		return machine.Host(ctx, args[1:])
	}
	f := process.NewFlags("provider-local", Named("provider-local").Purpose, stdout)
	f.Connected()
	dirname := f.String("dir", "", "directory of its machines; \"\": the installation's")
	evidence := f.String("evidence", "", "directory in which machines and the meter leave their own records; \"\": none")
	host := f.String("host-command", "", "program and arguments that keep one machine; \"\": a copy of this program")
	agent := f.String("agent-command", "", "program and arguments that a machine starts when it has booted; \"\": the agent beside this program")
	r, err := begin(f, args, surroundings())
	if err != nil {
		return err
	}
	if *dirname == "" {
		*dirname = r.installation.Path(installation.SellerDir)
	}
	return r.serve(ctx, func(ctx context.Context) (part, error) {
		if err := r.join(ctx); err != nil {
			return nil, err
		}
		seller, err := r.localSeller(*dirname, *evidence, *host, *agent)
		if err != nil {
			return nil, err
		}
		return &selling{r, r.installation.Market.Seller, seller}, nil
	})
}

func (r *runtime) localSeller(dirname, evidence, host, agent string) (*local.Seller, error) {
	hostArgv, err := command(host, func() ([]string, error) {
		exe, err := local.KeepExecutable(filepath.Join(dirname, "bin"))
		return []string{exe, hostWord}, err
	})
	if err != nil {
		return nil, fmt.Errorf("--host-command: %w", err)
	}
	agentArgv, err := command(agent, func() ([]string, error) {
		self, err := os.Executable()
		return []string{filepath.Join(filepath.Dir(self), "agent")}, err
	})
	if err != nil {
		return nil, fmt.Errorf("--agent-command: %w", err)
	}
	if evidence != "" {
		if evidence, err = filepath.Abs(evidence); err != nil {
			return nil, err
		}
	}
	i := r.installation
	return local.New(local.Config{
		Dir: dirname, Exe: hostArgv[0], HostArgs: hostArgv[1:], AgentArgs: agentArgv, Market: i.Market, Clock: i.Clock,
		EvidenceDir: evidence, OfferTTL: 4 * i.Poll(), Log: r.log.Named("seller"),
	})
}

// command is an argument vector that a flag gives as words, or what is used without it. The program must be there.
func command(words string, fallback func() ([]string, error)) ([]string, error) {
	argv := strings.Fields(words)
	if len(argv) == 0 {
		var err error
		if argv, err = fallback(); err != nil {
			return nil, err
		}
	}
	if !filepath.IsAbs(argv[0]) {
		return nil, fmt.Errorf("%q: give an absolute path: %w", argv[0], process.ErrUsage)
	}
	if _, err := os.Stat(argv[0]); err != nil {
		return nil, err
	}
	return argv, nil
}

// selling puts a seller on the bus.
type selling struct {
	r      *runtime
	name   string
	seller provider.Provider
}

// Run serves until ctx ends.
func (s *selling) Run(ctx context.Context) error {
	return remote.Serve(ctx, s.r.conns[0], s.seller, remote.ServerConfig{
		Seller: s.name, Version: "1.0.0", Log: s.r.log.Named("seller"), Registerer: s.r.registry,
		Tracer: s.r.spans.Tracer(),
	})
}

// Checks are what has to hold for the seller to do its work.
func (s *selling) Checks() []process.Check {
	return []process.Check{
		{Name: "bus", Test: func(ctx context.Context) error { return s.r.conns[0].FlushWithContext(ctx) }},
		{Name: "machines", Test: func(ctx context.Context) error {
			l, err := s.seller.List(ctx)
			if err == nil && !l.Complete {
				err = fmt.Errorf("the list of machines is incomplete: %w", provider.Unanswered(provider.OpList, nil))
			}
			return err
		}},
	}
}
