package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/services/internal/dev"
	"github.com/spotferry/spotferry/services/internal/jobfile"
	"github.com/spotferry/spotferry/services/internal/terminal"
)

// environment is what a command runs in: its streams, its clock, its way to the
// system, and the flags that every command has.
type environment struct {
	term    *terminal.Terminal
	getenv  func(string) string
	now     func() time.Time
	version string

	// open connects to the system on a state directory, as dev.Open does.
	open func(ctx context.Context, dir string, readable bool) (session, error)
	// pack puts the directory dir into the store from which machines fetch their workdir.
	pack func(ctx context.Context, dir string) (events.Archive, error)
	// keep puts what write writes into the same store.
	keep func(ctx context.Context, write func(io.Writer) error) (events.Archive, error)
	// mint returns the id of a job to be submitted.
	mint func() events.JobID

	poll     time.Duration // between looks at something that is followed
	timeout  time.Duration // for one answer
	patience time.Duration // with a system that went away while it was followed

	bus      string // of a system whose programs run by themselves
	creds    string // file
	state    string
	stateSet bool // by the flag: hints repeat it
	format   format
	noInput  bool
	yes      bool
	utc      bool
}

func newEnvironment(stdin io.Reader, stdout, stderr io.Writer, getenv func(string) string) *environment {
	e := &environment{
		term: terminal.Open(stdin, stdout, stderr, getenv, time.Now), getenv: getenv, now: time.Now, version: buildVersion(),
		mint: newJobID,
		poll: 500 * time.Millisecond, timeout: 30 * time.Second, patience: 2 * time.Minute,
		format: formatTable,
	}
	e.pack, e.keep, e.open = e.packWorkdir, e.keepArchive, e.openSystem
	return e
}

// openSystem connects to a bus that was named, else to the system of a state
// directory, as whoever the credentials say.
func (e *environment) openSystem(ctx context.Context, dir string, readable bool) (session, error) {
	creds := e.credentials()
	var s *dev.Session
	var err error
	switch url := e.busURL(); {
	case url != "" && creds == "":
		return session{}, usagef("give the file that 'spotferry creds user' has made with --creds or $SPOTFERRY_CREDS", "the bus at %s does not know who asks", url)
	case url != "":
		s, err = dev.Dial(url, creds)
	default:
		s, err = dev.OpenAs(ctx, dir, creds, readable)
	}
	if err != nil {
		return session{}, err
	}
	return session{s.Client, s.ReadOnly, s.Close}, nil
}

// credentials is the file that says who asks, "" for the state directory's own.
func (e *environment) credentials() string { return either(e.creds, e.getenv("SPOTFERRY_CREDS")) }

// busURL is where the bus of separate programs is, "" if the system is in a state directory.
func (e *environment) busURL() string { return either(e.bus, e.getenv("SPOTFERRY_BUS_URL")) }

func either(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// packWorkdir puts a working directory into the store of the state directory.
func (e *environment) packWorkdir(ctx context.Context, dir string) (events.Archive, error) {
	return e.keep(ctx, func(w io.Writer) error {
		_, err := jobfile.Pack(ctx, dir, w)
		return err
	})
}

func (e *environment) keepArchive(ctx context.Context, write func(io.Writer) error) (events.Archive, error) {
	state, err := e.stateDir()
	if err != nil {
		return events.Archive{}, err
	}
	return dev.StoreWorkdir(ctx, state, write)
}

// execute carries out one command line and says what went wrong.
func (e *environment) execute(ctx context.Context, args []string) int {
	root := rootCommand(e)
	root.SetArgs(append([]string{}, args...))
	root.SetIn(e.term.In)
	root.SetOut(e.term.Out)
	root.SetErr(e.term.Err)
	err := root.ExecuteContext(ctx)
	e.term.Done()
	if err == nil {
		return int(exitOK)
	}
	f := failureOf(ctx, err)
	if f.What != "" || len(f.Problems) > 0 {
		e.report(f)
	}
	return int(f.exit)
}

// stateDir is where the state is: the flag, the variable, or the usual place.
func (e *environment) stateDir() (string, error) {
	dir := e.state
	if dir == "" {
		dir = e.getenv("SPOTFERRY_STATE")
	}
	if dir != "" {
		return filepath.Abs(dir)
	}
	home := e.getenv("HOME")
	if home == "" {
		return "", usagef("say where the state is with --state DIR or $SPOTFERRY_STATE", "there is no home directory to look for the state in")
	}
	return filepath.Join(home, ".local", "state", "spotferry"), nil
}

// hint is a command to type next, on the same state.
func (e *environment) hint(args ...string) string {
	words := append([]string{"spotferry"}, args...)
	if e.stateSet {
		words = append(words, "--state", shellWord(e.state))
	}
	return strings.Join(words, " ")
}

// shellWord quotes s where a shell would not take it as it is.
func shellWord(s string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./,:@%+="
	if s != "" && strings.Trim(s, plain) == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

func (e *environment) zone() *time.Location {
	if e.utc {
		return time.UTC
	}
	return time.Local
}

// mayAsk says whether a question can be put to somebody.
func (e *environment) mayAsk() bool { return !e.noInput && e.term.InTTY }

// confirm asks before something that cannot be undone. Without somebody to ask
// it takes -y.
func (e *environment) confirm(ctx context.Context, what, question string) error {
	if e.yes {
		return nil
	}
	if !e.mayAsk() {
		return usagef("give -y to go ahead without being asked", "%s needs your consent, and nobody can be asked here", what)
	}
	yes, err := e.term.Confirm(ctx, question)
	if err != nil {
		return fmt.Errorf("asking for consent: %w", err)
	}
	if !yes {
		return &failure{exit: exitCancelled, What: what + " was called off: nothing was changed"}
	}
	return nil
}

func (e *environment) globalFlags(root *cobra.Command) {
	f := root.PersistentFlags()
	f.StringVar(&e.state, "state", "", "state directory `DIR` (default $SPOTFERRY_STATE or ~/.local/state/spotferry)")
	f.StringVar(&e.bus, "bus-url", "", "`URL` of the bus of separate programs (default $SPOTFERRY_BUS_URL, else the system of --state)")
	f.StringVar(&e.creds, "creds", "", "credentials `FILE` to ask with (default $SPOTFERRY_CREDS, else those of --state)")
	f.VarP(&e.format, "output", "o", "how to print: "+strings.Join(formats(), ", "))
	f.BoolVar(&e.noInput, "no-input", false, "never ask; refuse what would need an answer")
	f.BoolVarP(&e.yes, "yes", "y", false, "answer yes to what would be asked")
	f.BoolVar(&e.utc, "utc", false, "show times in UTC")
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		e.stateSet = root.PersistentFlags().Changed("state")
		return nil
	}
	_ = root.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(formats(), cobra.ShellCompDirectiveNoFileComp))
	_ = root.MarkPersistentFlagDirname("state")
}
