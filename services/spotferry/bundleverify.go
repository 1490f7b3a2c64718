package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/services/internal/console"
	"github.com/spotferry/spotferry/services/internal/terminal"
)

// finding is one check of a bundle.
type finding struct {
	Check  string `json:"check"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
}

func failoverVerifyCommand(e *environment) *cobra.Command {
	return &cobra.Command{
		Use: "verify FILE", Short: "Check that a bundle is whole and that its figures follow from its events", Args: args(1, 1),
		Long: `Verify needs no system. It checks every file's hash, every event's hash and place in its chain, and that record,
decision, phases, trace and log are what the events say.`,
		Example: "  spotferry failover verify postmortem.tar.gz\n  spotferry failover verify postmortem.tar.gz -o json",
		RunE: func(_ *cobra.Command, args []string) error {
			f, err := os.Open(args[0])
			if err != nil {
				return usagef("name a bundle that 'spotferry failover bundle' wrote", "%v", err)
			}
			defer f.Close()
			files, err := readBundle(f)
			if err != nil {
				return usagef("name a bundle that 'spotferry failover bundle' wrote", "%s: %v", terminal.Safe(args[0]), err)
			}
			checks := verifyBundle(files)
			if err := e.show(findingsView(checks)); err != nil {
				return err
			}
			if i := slices.IndexFunc(checks, func(v finding) bool { return !v.OK }); i >= 0 {
				return &failure{exit: exitInternal, What: fmt.Sprintf("the bundle is not what was written: %s: %s", checks[i].Check, checks[i].Detail), Remedy: "write it anew from the system"}
			}
			return nil
		},
	}
}

func findingsView(checks []finding) view {
	return view{doc: checks, list: true, page: func(p *page) {
		t := terminal.Table{Columns: terminal.Columns("CHECK", "", "WHAT")}
		for _, v := range checks {
			word := "ok"
			if !v.OK {
				word = "WRONG"
			}
			t.Row(v.Check, word, v.Detail)
		}
		p.table(t)
	}}
}

// Bounds of a bundle that is read: it may come from anywhere.
const (
	mostBundle      = 256 << 20
	mostBundleFiles = 64
)

// readBundle reads the files of an archive into memory. Nothing is unpacked.
func readBundle(r io.Reader) (map[string][]byte, error) {
	z, err := gzip.NewReader(r)
	if err != nil {
		return nil, fmt.Errorf("not a bundle: %w", err)
	}
	t := tar.NewReader(io.LimitReader(z, mostBundle))
	files := map[string][]byte{}
	for {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return files, nil
		}
		if err != nil {
			return nil, fmt.Errorf("not a bundle: %w", err)
		}
		_, name, ok := strings.Cut(h.Name, "/")
		if _, twice := files[name]; !ok || twice || h.Typeflag != tar.TypeReg || len(files) == mostBundleFiles {
			return nil, fmt.Errorf("not a bundle: it holds %.100q", h.Name)
		}
		if files[name], err = io.ReadAll(t); err != nil {
			return nil, fmt.Errorf("reading %.100q: %w", h.Name, err)
		}
	}
}

// opened is a bundle as its files tell it.
type opened struct {
	files    map[string][]byte
	manifest manifest
	move     console.Failover
	lines    []console.EventLine
	byID     map[events.EventID]console.EventLine
}

// verifyBundle makes every check; those that cannot be made are wrong.
func verifyBundle(files map[string][]byte) []finding {
	b := opened{files: files, byID: map[events.EventID]console.EventLine{}}
	var out []finding
	for _, c := range []struct {
		name  string
		check func() (string, error)
	}{
		{"manifest", b.checkManifest}, {"events", b.checkEvents}, {"record", b.checkRecord}, {"complete", b.checkComplete}, {"decision", b.checkDecision},
		{"phases", b.checkPhases}, {"trace", b.checkTrace}, {"last words", b.checkLastWords},
	} {
		detail, err := c.check()
		if err != nil {
			detail = err.Error()
		}
		out = append(out, finding{c.name, err == nil, detail})
	}
	return out
}

func (b *opened) read(name string, into any) error {
	data, ok := b.files[name]
	if !ok {
		return fmt.Errorf("%s is missing", name)
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

func (b *opened) checkManifest() (string, error) {
	if err := b.read(bundleManifest, &b.manifest); err != nil {
		return "", err
	}
	if v := b.manifest.Version; v != bundleVersion {
		return "", fmt.Errorf("bundle_version is %d, this program reads %d", v, bundleVersion)
	}
	for _, f := range b.manifest.Files {
		data, ok := b.files[f.Name]
		switch {
		case !ok:
			return "", fmt.Errorf("%.100s is missing", f.Name)
		case len(data) != f.Bytes || sha256Hex(data) != f.SHA256:
			return "", fmt.Errorf("%.100s is not the file that was written", f.Name)
		}
	}
	if len(b.files) != len(b.manifest.Files)+1 {
		return "", fmt.Errorf("%d files, the manifest names %d", len(b.files)-1, len(b.manifest.Files))
	}
	return fmt.Sprintf("%d files as they were written by %s", len(b.manifest.Files), b.manifest.MadeBy), nil
}

// checkEvents checks each event's hash, and each chain where two neighbours are here.
func (b *opened) checkEvents() (string, error) {
	last := map[string]console.EventLine{}
	links, rewritten := 0, 0
	for line := range bytes.Lines(b.files[bundleEvents]) {
		var l console.EventLine
		if err := json.Unmarshal(line, &l); err != nil {
			return "", fmt.Errorf("line %d: %w", len(b.lines)+1, err)
		}
		if l.Rewritten {
			rewritten++
		} else if l.Computed() != l.Hash {
			return "", fmt.Errorf("event %s is not the one that was hashed", l.ID)
		}
		prev, ok := last[l.Subject]
		if ok && follows(prev, l) {
			if l.PrevHash != prev.Hash {
				return "", fmt.Errorf("event %s does not follow %s", l.ID, prev.ID)
			}
			links++
		}
		last[l.Subject] = l
		b.lines, b.byID[l.ID] = append(b.lines, l), l
	}
	if len(b.lines) == 0 {
		return "", errors.New("there are none")
	}
	detail := fmt.Sprintf("%s, %d links of %d chains hold", count(len(b.lines), "event"), links, len(last))
	if rewritten > 0 {
		detail += fmt.Sprintf("; %d were written by another version: only their links were checked", rewritten)
	}
	return detail, nil
}

// follows says whether b is numbered as the next after a.
func follows(a, b console.EventLine) bool {
	m, err := strconv.ParseUint(a.Sequence, 10, 64)
	n, err2 := strconv.ParseUint(b.Sequence, 10, 64)
	return err == nil && err2 == nil && n == m+1
}

func (b *opened) checkRecord() (string, error) {
	if err := b.read(bundleRecord, &b.move); err != nil {
		return "", err
	}
	f, err := factOf[events.JobFailedOver](b, b.move.Event)
	if err != nil {
		return "", err
	}
	if !alike(f.Record, b.move.Record) {
		return "", fmt.Errorf("the record is not that of event %s", b.move.Event)
	}
	cause := f.Record.Cause
	for _, m := range b.move.Refined {
		r, err := factOf[events.JobFailoverRefined](b, m.Event)
		if err != nil {
			return "", err
		}
		if r.N != f.Record.N || r.Cause != m.Cause || r.Detail != m.Detail || !alike(r.Evidence, m.Evidence) {
			return "", fmt.Errorf("what was learned later is not as event %s says it", m.Event)
		}
		cause = r.Cause
	}
	if cause != b.move.Cause {
		return "", fmt.Errorf("the cause is %s, the events say %s", b.move.Cause, cause)
	}
	return fmt.Sprintf("as event %s, and %d refinements", b.move.Event, len(b.move.Refined)), nil
}

// factOf reads the fact of an event of the bundle.
func factOf[F any](b *opened, id events.EventID) (f F, err error) {
	l, ok := b.byID[id]
	if !ok {
		return f, fmt.Errorf("event %.100s is missing", id)
	}
	e, err := l.Event()
	if err != nil {
		return f, fmt.Errorf("event %s: %w", id, err)
	}
	f, ok = e.Fact.(F)
	if !ok {
		return f, fmt.Errorf("event %s is a %s", id, l.Type)
	}
	return f, nil
}

// alike compares as JSON: what was read from two files.
func alike(a, b any) bool {
	x, err := json.Marshal(a)
	y, err2 := json.Marshal(b)
	return err == nil && err2 == nil && bytes.Equal(x, y)
}

func (b *opened) checkDecision() (string, error) {
	var d decisions
	if err := b.read(bundleDecision, &d); err != nil {
		return "", err
	}
	all := d.Explained
	if d.Choice != nil {
		if d.Choice.Event != b.move.Record.Decision {
			return "", fmt.Errorf("it is %s, the record says %s", d.Choice.Event, b.move.Record.Decision)
		}
		all = append(slices.Clone(all), *d.Choice)
	}
	for _, c := range all {
		var was events.Decision
		if f, err := factOf[events.LeaseIntended](b, c.Event); err == nil {
			was = f.Decision
		} else if f, err := factOf[events.LeaseDeclined](b, c.Event); err == nil {
			was = f.Decision
		} else {
			return "", err
		}
		if !alike(was, c.Decision) {
			return "", fmt.Errorf("the decision is not that of event %s", c.Event)
		}
	}
	return fmt.Sprintf("%s as the events have them", count(len(all), "decision")), nil
}

func (b *opened) checkPhases() (string, error) {
	if !bytes.Equal(phasesCSV(b.move.Record), b.files[bundlePhases]) {
		return "", errors.New("they are not those of the record")
	}
	return fmt.Sprintf("%d as the record has them", len(b.move.Record.Phases)), nil
}

func (b *opened) checkTrace() (string, error) {
	want, err := bundleSpans(b.move, b.lines, b.manifest.MadeBy)
	switch {
	case err != nil:
		return "", err
	case !bytes.Equal(want, b.files[bundleTrace]):
		return "", errors.New("it is not what record and events give")
	}
	return "as record and events give it", nil
}

func (b *opened) checkLastWords() (string, error) {
	for _, l := range b.lines {
		e, err := l.Event()
		if err != nil {
			continue
		}
		f, ok := e.Fact.(events.JobLastWords)
		if !ok || f.Epoch != b.move.Record.From.Epoch {
			continue
		}
		var heartbeat *events.Heartbeat
		if err := b.read(bundleHeartbeat, &heartbeat); err != nil {
			return "", err
		}
		if !bytes.Equal(logText(f.Lines), b.files[bundleLog]) || !alike(heartbeat, f.Heartbeat) {
			return "", fmt.Errorf("they are not those of event %s", l.ID)
		}
		return fmt.Sprintf("%s as event %s has them", count(len(f.Lines), "line"), l.ID), nil
	}
	return "none were kept", nil
}
