package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"slices"

	"github.com/spf13/cobra"

	"github.com/spotferry/spotferry/services/internal/console"
	"github.com/spotferry/spotferry/services/internal/terminal"
)

func doctorCommand(e *environment) *cobra.Command {
	return &cobra.Command{
		Use: "doctor", Short: "Look for what is wrong, and say how to mend it", Args: args(0, 0),
		Long: "Doctor looks at this machine, at the state directory, and at the system that\nruns on it. It changes nothing.",
		Example: `  spotferry doctor
  spotferry doctor --state ./state -o json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			checks, code := e.examine(cmd.Context())
			if err := e.show(checksView(checks)); err != nil {
				return err
			}
			if code != exitOK {
				return &failure{exit: code}
			}
			return nil
		},
	}
}

// examine makes every check it can get to, and the exit code that they add up to.
func (e *environment) examine(ctx context.Context) ([]console.Check, exit) {
	checks := []console.Check{e.platformCheck(), e.stateCheck()}
	l, err := e.connect(ctx, true)
	if err != nil {
		f := failureOf(ctx, err)
		return append(checks, console.Check{Name: "system", Detail: f.What, Remedy: f.Remedy}), f.exit
	}
	defer l.Close()
	clock, err := ask[console.Clock](ctx, l, console.GetClock, nil)
	if err != nil {
		f := failureOf(ctx, err)
		return append(checks, console.Check{Name: "system", Detail: f.What, Remedy: "start it with '" + e.hint("dev") + "'"}), f.exit
	}
	if !l.readOnly {
		p := e.page()
		checks = append(checks, console.Check{Name: "system", OK: true, Detail: "runs; market time is " + p.stamp(clock.Market)}, e.versionCheck(clock))
	}
	health, err := ask[[]console.Check](ctx, l, console.GetHealth, nil)
	if err != nil {
		health = []console.Check{{Name: "health", Detail: err.Error()}}
	}
	checks = append(checks, health...)
	return checks, worst(checks, l.readOnly)
}

// worst is the exit code that checks add up to.
func worst(checks []console.Check, readOnly bool) exit {
	switch {
	case readOnly:
		return exitUnreachable
	case slices.ContainsFunc(checks, func(c console.Check) bool { return !c.OK }):
		return exitInternal
	}
	return exitOK
}

func (e *environment) platformCheck() console.Check {
	c := console.Check{Name: "platform", OK: runtime.GOOS == "linux", Detail: runtime.GOOS + "/" + runtime.GOARCH + ", " + runtime.Version()}
	if !c.OK {
		c.Remedy = "jobs on this machine need Linux; another machine's system can be used from here"
	}
	return c
}

func (e *environment) stateCheck() console.Check {
	c := console.Check{Name: "state"}
	dir, err := e.stateDir()
	if err != nil {
		f := failureOf(context.Background(), err)
		c.Detail, c.Remedy = f.What, f.Remedy
		return c
	}
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		c.Detail, c.Remedy = "there is no "+dir, "start the system with '"+e.hint("dev")+"', or name another state with --state"
	case err != nil:
		c.Detail, c.Remedy = err.Error(), "use the account that started the system"
	case !info.IsDir():
		c.Detail, c.Remedy = dir+" is not a directory", "name another state with --state"
	case info.Mode().Perm()&0o077 != 0:
		c.Detail = fmt.Sprintf("%s can be opened by others (%v): it holds keys", dir, info.Mode().Perm())
		c.Remedy = "chmod 700 " + shellWord(dir)
	default:
		c.OK, c.Detail = true, dir
	}
	return c
}

func (e *environment) versionCheck(clock console.Clock) console.Check {
	c := console.Check{Name: "version", OK: clock.Version == e.version, Detail: e.version}
	if !c.OK {
		c.Detail = fmt.Sprintf("this is %s, the system is %s", e.version, clock.Version)
		c.Remedy = "use the same one for both: start the system again with this"
	}
	return c
}

func checksView(checks []console.Check) view {
	v := view{doc: checks, list: true, page: func(p *page) {
		t := terminal.Table{Columns: terminal.Columns("CHECK", "RESULT", "DETAIL")}
		t.Columns[1].Mark = func(s terminal.Style, cell string) string {
			if cell == "ok" {
				return s.Good(cell)
			}
			return s.Bad(cell)
		}
		for _, c := range checks {
			t.Row(c.Name, verdict(c), c.Detail)
		}
		p.table(t)
		for _, c := range checks {
			if !c.OK && c.Remedy != "" {
				p.line("%s: %s", c.Name, c.Remedy)
			}
		}
	}}
	for _, c := range checks {
		v.names = append(v.names, c.Name)
	}
	return v
}

func verdict(c console.Check) string {
	if c.OK {
		return "ok"
	}
	return "WRONG"
}
