// Museum keeps the bugs that this system must never have, each planted as a
// patch of a few lines, and proves that the checks see them.
//
//	go run ./services/internal/museum                 every patch of the museum
//	go run ./services/internal/museum FILE.patch ...  patches it has never seen
//
// It works on a private copy of the tree: what git tracks, with the changes made
// since. The unchanged copy passes the checks first; then each patch is applied,
// judged by the same commands in the same order, and taken back. Its laws:
//
//   - No check knows a patch. Each is a test of a package or an oracle of the
//     simulation, and stands for an invariant or a promise.
//   - What does not apply or does not compile was not judged, and is told apart
//     from what was missed.
//   - The first check that fails names the verdict; with -all every check is run
//     and every one that fails is named.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "museum:", err)
		os.Exit(1)
	}
}

// errMissed is the end of a visit in which not every patch was caught.
var errMissed = errors.New("not every patch was caught by a check")

// options are the command line.
type options struct {
	root    string   // of the tree
	all     bool     // run every check, whatever failed before
	fresh   bool     // take no result of an earlier run for granted
	noBase  bool     // do not judge the unchanged tree
	format  string   // "text" or "json"
	file    string   // also written there, as JSON
	patches []string // absolute
}

func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	f := flag.NewFlagSet("museum", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&o.root, "C", ".", "root of the `tree`")
	f.BoolVar(&o.all, "all", false, "run every check, also after one has failed")
	f.BoolVar(&o.fresh, "fresh", false, "run tests again whose result is in go's cache")
	f.BoolVar(&o.noBase, "skip-unchanged", false, "take it for granted that the unchanged tree passes")
	f.StringVar(&o.format, "o", "text", "`format` of the report: text or json")
	f.StringVar(&o.file, "file", "", "write the report as JSON to this `file` too")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if o.format != "text" && o.format != "json" {
		return o, fmt.Errorf("-o %q: give text or json", o.format)
	}
	root, err := filepath.Abs(o.root)
	if err != nil {
		return o, err
	}
	o.root, o.patches = root, f.Args()
	if len(o.patches) == 0 {
		if o.patches, err = filepath.Glob(filepath.Join(root, "services/internal/simtest/museum/*.patch")); err != nil || len(o.patches) == 0 {
			return o, fmt.Errorf("no patches under %s: name one, or the root of the tree with -C", root)
		}
		slices.Sort(o.patches)
	}
	for i, p := range o.patches {
		if o.patches[i], err = filepath.Abs(p); err != nil {
			return o, err
		}
	}
	return o, nil
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	o, err := parse(args, stderr)
	if err != nil {
		return err
	}
	progress := stderr
	if o.format == "text" {
		progress = stdout
	}
	t, err := copyTree(ctx, o.root)
	if err != nil {
		return fmt.Errorf("copying the tree: %w", err)
	}
	defer t.close()
	r := report{Began: time.Now().UTC()}
	j := judge{tree: t, all: o.all, fresh: o.fresh}
	if !o.noBase {
		v := j.unchanged(ctx)
		r.Unchanged = &v
		fmt.Fprintln(progress, v.line())
		if v.Verdict != passes {
			return errors.Join(fmt.Errorf("the unchanged tree does not pass: nothing can be judged by these checks\n%s", v.Detail), r.write(o, stdout))
		}
	}
	for _, p := range o.patches {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		v := j.patch(ctx, p)
		r.Patches = append(r.Patches, v)
		fmt.Fprintln(progress, v.line())
	}
	r.sum()
	if err := r.write(o, stdout); err != nil {
		return err
	}
	if r.Caught < len(r.Patches) {
		return errMissed
	}
	return nil
}
