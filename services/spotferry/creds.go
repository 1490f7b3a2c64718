package main

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/spotferry/spotferry/bidder/trace"
	"github.com/spotferry/spotferry/services/internal/console"
	installed "github.com/spotferry/spotferry/services/internal/installation"
)

// credsCommand makes what separate programs and people prove who they are with.
func credsCommand(e *environment) *cobra.Command {
	return group(&cobra.Command{
		Use: "creds", GroupID: groupSystem, Short: "Keys and credentials of separate programs, and of people",
		Example: "  spotferry creds init /etc/spotferry\n  spotferry creds user ann --role operator --state /etc/spotferry\n  spotferry creds seller gcp --state /etc/spotferry",
	}, credsInitCommand(e), credsUserCommand(e), credsSellerCommand(e))
}

// credsInitCommand makes an installation.
func credsInitCommand(e *environment) *cobra.Command {
	var (
		cfg    installed.Config
		seed   uint64
		market string
		start  int
		keep   bool
	)
	c := &cobra.Command{
		Use: "init DIR", Args: args(1, 1), Short: "Make the keys and the file that every separate program is given",
		Long: `Makes a directory with everything that the separate programs of one installation
need: the bus's operator and accounts, one credentials file for each program with no
more rights than it needs, one for an administrator, installation.json, which every
program is given, and nats-server.conf for a stock nats-server.

Only the gateway needs operator/; whoever can read it can be anybody. Nothing that is
there is ever overwritten.`,
		Example: "  spotferry creds init /etc/spotferry\n  spotferry creds init ./try --scale 240 --divide 10     # fast timers and a fast market, to try it out",
		RunE: func(cmd *cobra.Command, words []string) error {
			cfg.Dir, cfg.Version, cfg.Now = words[0], e.version, e.now
			if cmd.Flags().Changed("seed") {
				cfg.Market = trace.Spec{Kind: "model", Seed: seed}
			}
			if market != "" {
				dir, err := filepath.Abs(market)
				if err != nil {
					return err
				}
				cfg.Market = trace.Spec{Kind: "files", Files: &trace.Files{Dir: dir, StartTick: start}}
			}
			i, err := installed.Init(cfg)
			if errors.Is(err, fs.ErrExist) && keep {
				if i, err = installed.Load(filepath.Join(words[0], installed.File)); err == nil {
					e.term.Note("%s is there already and was left as it is", i.Dir())
					return nil
				}
			}
			if errors.Is(err, fs.ErrExist) {
				return &failure{exit: exitConflict, What: err.Error()}
			}
			if err != nil {
				return usagef("'spotferry creds init --help' says what it takes", "%v", err)
			}
			e.term.Note("made %s: give each program --installation %s and its own file of %s",
				i.Dir(), filepath.Join(i.Dir(), installed.File), filepath.Join(i.Dir(), "creds"))
			return nil
		},
	}
	f := c.Flags()
	f.StringVar(&cfg.Org, "org", "", "organisation that jobs and bills belong to (default main)")
	f.StringVar(&cfg.BusURL, "bus-url", "", "of a bus that is run elsewhere, such as nats://nats:4222 (default: our own bus on this machine)")
	f.StringVar(&cfg.Listen, "listen", "", "host:port in nats-server.conf (default 127.0.0.1:4222)")
	f.StringVar(&cfg.Store, "store", "", "where checkpoints go: a directory that every machine sees, s3://BUCKET/PREFIX, gs://BUCKET/PREFIX or az://ACCOUNT/CONTAINER (default: a directory of the installation)")
	f.BoolVar(&cfg.Encrypt, "encrypt", false, "encrypt checkpoints; the keys are in the operator's directory: back both files up, apart from each other")
	f.StringArrayVar(&cfg.Sellers, "seller", nil, "who is bought from, once for each: local, aws, gcp, vast, runpod, lambda, or one of your own (default local)")
	f.IntVar(&cfg.Replicas, "replicas", 1, "copies of each stream; more than 1 needs a cluster of that many servers")
	f.Uint64Var(&seed, "seed", 1, "of the local seller's made-up market")
	f.StringVar(&market, "market", "", "directory of recorded markets, instead of a made-up one")
	f.IntVar(&start, "market-start", 0, "first tick of the recorded market")
	f.Int64Var(&cfg.Scale, "scale", 0, "market seconds in a second (default 1)")
	f.IntVar(&cfg.Divide, "divide", 0, "divide every timer by this (default 1)")
	f.BoolVar(&keep, "keep", false, "an installation that is there already is no error, and is left as it is")
	return c
}

// credsSellerCommand makes a seller known to an installation.
func credsSellerCommand(e *environment) *cobra.Command {
	return &cobra.Command{
		Use: "seller NAME", Args: args(1, 1), Short: "Buy from another seller",
		Long: `Makes a seller known to an installation, and the credentials of the one program that
answers for it: provider-NAME of this distribution, or any other that speaks the
messages of docs/sellers.md. That program alone has the seller's own keys. The watcher, the
bidder and the console ask it from their next start.`,
		Example: "  spotferry creds seller gcp --state /etc/spotferry",
		RunE: func(_ *cobra.Command, words []string) error {
			dir, err := e.stateDir()
			if err != nil {
				return err
			}
			path, err := installed.AddSeller(dir, words[0], e.now)
			if errors.Is(err, fs.ErrExist) {
				return &failure{exit: exitConflict, What: err.Error()}
			}
			if err != nil {
				return usagef("'spotferry creds seller --help' says what it takes", "%v", err)
			}
			e.term.Note("give %s to provider-%s alone, and start the watcher, the bidder and the console again", path, words[0])
			fmt.Fprintln(e.term.Out, path)
			return nil
		},
	}
}

// credsUserCommand makes a person's credentials in an installation or a state directory.
func credsUserCommand(e *environment) *cobra.Command {
	var role string
	c := &cobra.Command{
		Use: "user NAME", Args: args(1, 1), Short: "Make a person's credentials",
		Long: `Makes the credentials with which somebody's command line asks. The name and the
role stand in them and in every event that they cause. It needs the bus's operator
keys, which the directory holds.`,
		Example: "  spotferry creds user ann --role viewer --state /etc/spotferry",
		RunE: func(_ *cobra.Command, words []string) error {
			dir, err := e.stateDir()
			if err != nil {
				return err
			}
			if !console.Role(role).May(console.Viewer) {
				return usagef("roles are viewer, operator and admin", "--role %.40q is not known", role)
			}
			path, err := installed.AddPerson(dir, words[0], role, e.now)
			if errors.Is(err, fs.ErrExist) {
				return &failure{exit: exitConflict, What: err.Error()}
			}
			if err != nil {
				return usagef("'spotferry creds user --help' says what it takes", "%v", err)
			}
			e.term.Note("%s may ask as %s with %s: give it to nobody else", words[0], role, path)
			fmt.Fprintln(e.term.Out, path)
			return nil
		},
	}
	c.Flags().StringVar(&role, "role", string(console.Viewer), "viewer, operator or admin")
	return c
}
