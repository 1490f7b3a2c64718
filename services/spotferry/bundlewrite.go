package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/spotferry/spotferry/services/internal/console"
	"github.com/spotferry/spotferry/services/internal/terminal"
)

func failoverBundleCommand(e *environment) *cobra.Command {
	var to string
	cmd := &cobra.Command{
		Use: "bundle JOB [N]", Short: "Write everything about one move to one archive, for a post-mortem", Args: args(1, 2),
		Example: "  spotferry failover bundle llama-7b        # the newest\n  spotferry failover bundle llama-7b 3 --to postmortem.tar.gz\n  spotferry failover verify postmortem.tar.gz",
		RunE: func(cmd *cobra.Command, args []string) error {
			q, err := numbered(args)
			if err != nil {
				return err
			}
			l, err := e.connect(cmd.Context(), true)
			if err != nil {
				return err
			}
			defer l.Close()
			d, err := failoverReport(cmd.Context(), l, q, true)
			if err != nil {
				return err
			}
			if to == "" {
				to = bundleDir(d.Job, d.Record.N) + ".tar.gz"
			}
			if err := e.export(cmd.Context(), l, d, to, ""); err != nil {
				return err
			}
			return e.show(view{doc: map[string]string{"file": to}, names: []string{to}, page: func(p *page) {
				p.line("%s has failover %d of %s. '%s' checks it.", to, d.Record.N, d.Name, "spotferry failover verify "+shellWord(to))
			}})
		},
		ValidArgsFunction: e.completeJobs,
	}
	cmd.Flags().StringVar(&to, "to", "", "the `FILE` to write (default failover-JOB-N.tar.gz)")
	_ = cmd.MarkFlagFilename("to", "tar.gz")
	return cmd
}

// export writes a move's bundle and its trace to the files that are named.
func (e *environment) export(ctx context.Context, l *link, d failoverDetail, bundle, trace string) error {
	lines, err := failoverEvents(ctx, l, d)
	if err != nil {
		return err
	}
	if trace != "" {
		b, err := bundleSpans(d.Failover, lines, e.version)
		if err == nil {
			err = e.newFile(trace, func(w io.Writer) error { _, err := w.Write(b); return err })
		}
		if err != nil {
			return err
		}
	}
	if bundle == "" {
		return nil
	}
	files, err := bundleFiles(d, lines, e.version)
	if err != nil {
		return err
	}
	return e.newFile(bundle, func(w io.Writer) error {
		return writeBundle(w, bundleDir(d.Job, d.Record.N), d.Record.Ended, files)
	})
}

// mostEvents bounds what a bundle is made of: a machine's life has some tens of events.
const mostEvents = 100_000

// failoverEvents reads the events of a move.
func failoverEvents(ctx context.Context, l *link, d failoverDetail) ([]console.EventLine, error) {
	q := console.FailoverQuery{Job: string(d.Job), N: d.Record.N}
	out := []console.EventLine{}
	for {
		part, err := ask[console.FailoverEvents](ctx, l, console.GetFailoverEvents, q)
		if err != nil {
			return nil, err
		}
		out = append(out, part.Events...)
		if !part.More || part.Next <= q.After {
			return out, nil
		}
		if q.After = part.Next; len(out) > mostEvents {
			return nil, fmt.Errorf("failover %d of %s has more than %d events", d.Record.N, d.Job, mostEvents)
		}
	}
}

// newFile writes a file whole or not at all. One that is there is replaced only after -y.
func (e *environment) newFile(path string, write func(io.Writer) error) (err error) {
	if _, err := os.Lstat(path); err == nil && !e.yes {
		return usagef("name another, or give -y to replace it", "%s is there already", terminal.Safe(path))
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return usagef("name a file that can be written", "%s: %v", terminal.Safe(path), err)
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".spotferry-*")
	if err != nil {
		return usagef("name a file in a directory that can be written", "%v", err)
	}
	defer func() {
		if err != nil {
			_ = f.Close()
			_ = os.Remove(f.Name())
		}
	}()
	if err = write(f); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	if err = f.Sync(); err == nil {
		err = f.Close()
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}
