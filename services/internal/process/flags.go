package process

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/pflag"
)

// Flags are what a program can be told. Each flag has a variable,
// SPOTFERRY_ and its name in capitals, which counts when the flag is not given.
type Flags struct {
	*pflag.FlagSet
	Installation string
	Creds        string
	Admin        string
	AdminFile    string
	LogLevel     string
	Marks        string
	Faults       Faults
}

const variables = "SPOTFERRY_"

// NewBareFlags declares the flags that a program has wherever it runs.
func NewBareFlags(program, purpose string, stdout io.Writer) *Flags {
	f := &Flags{FlagSet: pflag.NewFlagSet(program, pflag.ContinueOnError)}
	f.SetOutput(stdout)
	f.SortFlags = false
	f.StringVar(&f.LogLevel, "log-level", "info", "debug, info, warn or error")
	f.Usage = func() {
		fmt.Fprintf(stdout, "%s %s.\n\nEach flag can be given as a variable instead: --log-level as %sLOG_LEVEL.\n\n%s", program, purpose, variables, f.FlagUsages())
	}
	return f
}

// NewFlags declares the flags that every program of an installation has.
func NewFlags(program, purpose string, stdout io.Writer) *Flags {
	f := NewBareFlags(program, purpose, stdout)
	f.StringVar(&f.Installation, "installation", "", "installation.json, as 'spotferry creds init' made it")
	f.StringVar(&f.Admin, "admin", "127.0.0.1:0", "host:port of /metrics, /livez and /readyz; \"\": none")
	f.StringVar(&f.AdminFile, "admin-file", "", "file to write that address to, once it is known")
	f.faults()
	return f
}

// Connected declares the flags of a program that is a client of the bus.
func (f *Flags) Connected() {
	f.StringVar(&f.Creds, "creds", "", "credentials file of this program")
}

// Marked declares the flag of a program that acts on the streams of truth.
func (f *Flags) Marked() {
	f.StringVar(&f.Marks, "marks", "", "file that remembers how far the streams have been; one for each replica, and %h in its name is the host's. \"\": none is kept")
}

// Read takes the command line and the environment.
func (f *Flags) Read(args []string, getenv func(string) string) error {
	switch err := f.Parse(args); {
	case errors.Is(err, pflag.ErrHelp):
		return err
	case err != nil:
		return fmt.Errorf("%s: %w: %w", f.Name(), err, ErrUsage)
	case f.NArg() > 0:
		return fmt.Errorf("%s: %.40q is no flag: %w", f.Name(), f.Arg(0), ErrUsage)
	}
	var errs []error
	f.VisitAll(func(flag *pflag.Flag) {
		name := variables + strings.ToUpper(strings.ReplaceAll(flag.Name, "-", "_"))
		if v := getenv(name); v != "" && !flag.Changed {
			if err := f.Set(flag.Name, v); err != nil {
				errs = append(errs, fmt.Errorf("%s: %s: %w: %w", f.Name(), name, err, ErrUsage))
			}
		}
	})
	return errors.Join(errs...)
}

// Required says which of the named flags is missing.
func (f *Flags) Required(names ...string) error {
	for _, n := range names {
		if flag := f.Lookup(n); flag != nil && flag.Value.String() == "" {
			return fmt.Errorf("%s: --%s is missing: %w", f.Name(), n, ErrUsage)
		}
	}
	return nil
}
