package main

import (
	"context"
	"fmt"
	"path"

	"github.com/spf13/cobra"

	"github.com/spotferry/spotferry/failover/gateway"
	"github.com/spotferry/spotferry/services/internal/console"
	"github.com/spotferry/spotferry/services/internal/terminal"
)

// checkpointDetail is what show prints.
type checkpointDetail struct {
	console.Checkpoint
	State    string            `json:"state"`
	Why      string            `json:"why,omitempty"`
	Contents *gateway.Contents `json:"contents,omitempty"` // absent: its manifest could not be read
	unread   string
}

func checkpointShowCommand(e *environment) *cobra.Command {
	return &cobra.Command{
		Use: "show JOB [CHECKPOINT]", Short: "Show one checkpoint: its files, and the objects that hold them", Args: args(1, 2),
		Long:    "CHECKPOINT is a name, the beginning of its hash, a step, or 'newest', which is also what is shown without one.",
		Example: "  spotferry checkpoint show llama-7b\n  spotferry checkpoint show llama-7b 1200 -o wide",
		RunE: func(cmd *cobra.Command, args []string) error {
			which := "newest"
			if len(args) == 2 {
				which = args[1]
			}
			d, err := e.checkpointDetail(cmd.Context(), args[0], which)
			if err != nil {
				return err
			}
			return e.show(view{doc: d, names: []string{d.Name}, page: func(p *page) { writeCheckpoint(p, d) }})
		},
		ValidArgsFunction: e.completeCheckpoints,
	}
}

func (e *environment) checkpointDetail(ctx context.Context, job, which string) (checkpointDetail, error) {
	l, err := e.connect(ctx, true)
	if err != nil {
		return checkpointDetail{}, err
	}
	defer l.Close()
	c, err := picked(ctx, l, job, which)
	if err != nil {
		return checkpointDetail{}, err
	}
	d := checkpointDetail{Checkpoint: c, State: c.State(), Why: c.Why()}
	if c.Dropped != nil {
		d.unread = "it is dropped"
		return d, nil
	}
	in, err := ask[gateway.Contents](ctx, l, console.GetCheckpoint, console.CheckpointQuery{Job: job, Name: c.Name})
	if err != nil {
		d.unread = failureOf(ctx, err).What
		return d, nil
	}
	d.Contents = &in
	return d, nil
}

// picked asks for a job's checkpoints and finds the one that is meant.
func picked(ctx context.Context, l *link, job, which string) (console.Checkpoint, error) {
	list, err := ask[[]console.Checkpoint](ctx, l, console.GetCheckpoints, console.Query{Job: job})
	if err != nil {
		return console.Checkpoint{}, err
	}
	return pick(list, job, which)
}

func writeCheckpoint(p *page, d checkpointDetail) {
	c := d.Checkpoint
	p.head("%s", c.Name)
	p.field("state", "%s", d.State+labelled(": ", d.Why))
	p.field("step", "%d, of epoch %d", c.Step, c.Epoch)
	p.field("committed", "%s", p.stamp(c.Committed))
	p.field("size", "%s in %s", size(c.Bytes), count(c.Files, "file"))
	if c.SaveMS+c.UploadMS > 0 {
		p.field("took", "%s to save, %s to upload", ms(c.SaveMS), ms(c.UploadMS))
	}
	p.field("digest", "%s", c.Digest)
	p.field("weights", "%s", c.Weights)
	in := d.Contents
	if in == nil {
		p.field("contents", "not known: %s", d.unread)
		return
	}
	p.field("framework", "%s", in.Framework)
	p.field("directory", "%s", in.Dir)
	if in.Sealed {
		p.field("encrypted", "with the organisation's key")
	}
	p.head("Files")
	t := terminal.Table{Columns: terminal.Columns(">SIZE", ">STORED", ">CHUNKS", ">EMPTY", ">FROM BEFORE", "PATH")}
	for _, f := range in.Files {
		t.Row(size(f.Size), size(f.Stored), fmt.Sprint(f.Chunks), size(f.Zeros), size(f.Reused), f.Path)
	}
	p.table(t)
	if in.MoreFiles > 0 {
		p.line("and %s", count(in.MoreFiles, "more file"))
	}
	objects(p, in)
}

// objects lists the objects on a wide page, and counts them on any other.
func objects(p *page, in *gateway.Contents) {
	var sum int64
	for _, o := range in.Objects {
		sum += o.Size
	}
	p.head("%s, %s%s", count(len(in.Objects)+in.MoreObjects, "object"), size(sum), map[bool]string{true: " and more", false: ""}[in.MoreObjects > 0])
	if !p.wide {
		return
	}
	t := terminal.Table{Columns: terminal.Columns(">SIZE", "EPOCH", "OBJECT")}
	for _, o := range in.Objects {
		t.Row(size(o.Size), path.Base(path.Dir(o.Name)), path.Base(o.Name))
	}
	p.table(t)
}
