package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/services/internal/console"
	"github.com/spotferry/spotferry/services/internal/terminal"
	"github.com/spotferry/spotferry/services/internal/tracing"
)

// bundleVersion rises when a file of a bundle changes its meaning or goes away.
const bundleVersion = 1

// The files of a bundle. Their names are these, whatever a job is called.
const (
	bundleReadme    = "README.txt"
	bundleManifest  = "manifest.json"
	bundleRecord    = "record.json"
	bundleEvidence  = "evidence.json"
	bundleDecision  = "decision.json"
	bundleEvents    = "events.jsonl"
	bundlePhases    = "phases.csv"
	bundleTrace     = "trace.json"
	bundleBill      = "bill.json"
	bundleLog       = "last-words/log.txt"
	bundleHeartbeat = "last-words/heartbeat.json"
)

// bundleFile is one file of a bundle.
type bundleFile struct {
	name string
	data []byte
}

// manifest names every other file of a bundle with its SHA-256.
type manifest struct {
	Version int             `json:"bundle_version"`
	Schema  int             `json:"schema_version"` // of the JSON files, as -o json has it
	MadeBy  string          `json:"made_by"`        // version of spotferry
	Job     events.JobID    `json:"job"`
	N       int             `json:"failover"`
	Trace   string          `json:"trace"`
	Files   []manifestEntry `json:"files"`
}

type manifestEntry struct {
	Name   string `json:"name"`
	Bytes  int    `json:"bytes"`
	SHA256 string `json:"sha256"`
}

// decisions is the content of decision.json.
type decisions struct {
	Choice     *console.Choice     `json:"choice,omitempty"`
	Considered []console.ChoiceRef `json:"considered"`
	Explained  []console.Choice    `json:"considered_decisions"` // the newest of Considered, in full
}

// bundleFiles makes the files of a move's bundle. The same move, told by the same version,
// gives the same bytes.
func bundleFiles(d failoverDetail, lines []console.EventLine, version string) ([]bundleFile, error) {
	trace, err := bundleSpans(d.Failover, lines, version)
	if err != nil {
		return nil, err
	}
	b := bundleMaker{}
	b.raw(bundleReadme, []byte(bundleText(d)))
	b.json(bundleRecord, d.Failover)
	b.json(bundleEvidence, d.Evidence)
	b.json(bundleDecision, decisions{d.Choice, d.Considered, d.Explained})
	b.jsonLines(bundleEvents, lines)
	b.raw(bundlePhases, phasesCSV(d.Record))
	b.raw(bundleTrace, trace)
	b.json(bundleBill, d.Bill)
	if w := d.LastWords; w != nil {
		b.raw(bundleLog, logText(w.Lines))
		b.json(bundleHeartbeat, w.Heartbeat)
	}
	m := manifest{Version: bundleVersion, Schema: console.SchemaVersion, MadeBy: version, Job: d.Job, N: d.Record.N, Trace: d.Trace}
	for _, f := range b.files {
		m.Files = append(m.Files, manifestEntry{f.name, len(f.data), sha256Hex(f.data)})
	}
	b.json(bundleManifest, m)
	return b.files, b.err
}

type bundleMaker struct {
	files []bundleFile
	err   error
}

func (b *bundleMaker) raw(name string, data []byte) {
	b.files = append(b.files, bundleFile{name, data})
}

func (b *bundleMaker) json(name string, v any) {
	var out bytes.Buffer
	if err := terminal.JSON(&out, v); err != nil && b.err == nil {
		b.err = fmt.Errorf("writing %s: %w", name, err)
	}
	b.raw(name, out.Bytes())
}

// jsonLines writes one object a line, each byte for byte as its hash was taken over.
func (b *bundleMaker) jsonLines(name string, lines []console.EventLine) {
	var out bytes.Buffer
	for _, l := range lines {
		one, err := json.Marshal(l)
		if err != nil && b.err == nil {
			b.err = fmt.Errorf("writing %s: %w", name, err)
		}
		out.Write(append(one, '\n'))
	}
	b.raw(name, out.Bytes())
}

func sha256Hex(b []byte) string {
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:])
}

// bundleSpans is the move's trace, made from its record and the events of the bundle alone.
func bundleSpans(f console.Failover, lines []console.EventLine, version string) ([]byte, error) {
	var evs []events.Event
	for _, l := range lines {
		if e, err := l.Event(); err == nil { // a type of a newer version tells this one nothing
			evs = append(evs, e)
		}
	}
	b, err := tracing.JSON("spotferry", version, tracing.Spans(f.Job, f.Name, f.Record, evs))
	var out bytes.Buffer
	if err == nil {
		err = terminal.JSON(&out, json.RawMessage(b))
	}
	if err != nil {
		return nil, fmt.Errorf("writing %s: %w", bundleTrace, err)
	}
	return out.Bytes(), nil
}

// phasesCSV is a table of the phases for a spreadsheet.
func phasesCSV(r events.Failover) []byte {
	var out bytes.Buffer
	w := csv.NewWriter(&out)
	_ = w.Write([]string{"phase", "began", "ended", "ms", "ms_after_first_sign", "clock"}) // a buffer takes everything
	for _, p := range r.Phases {
		end := p.Began.Add(time.Duration(p.MS) * time.Millisecond)
		_ = w.Write([]string{
			p.Name, p.Began.UTC().Format(time.RFC3339Nano), end.UTC().Format(time.RFC3339Nano), strconv.FormatInt(p.MS, 10),
			strconv.FormatInt(p.Began.Sub(r.Began).Milliseconds(), 10), p.Clock,
		})
	}
	w.Flush()
	return out.Bytes()
}

// mostLog bounds the text of a bundle's log, whatever a record holds.
const mostLog = 1 << 20

// logText is lines of output as they can be shown on any screen; the events have them as they came.
func logText(lines []events.LogLine) []byte {
	var out bytes.Buffer
	for _, l := range lines {
		line := l.At.UTC().Format("2006-01-02T15:04:05.000Z") + " " + terminal.Safe(l.Stream) + " " + terminal.SafeLine(l.Text) + "\n"
		if out.Len()+len(line) > mostLog {
			out.WriteString("(more was kept; events.jsonl has it)\n")
			break
		}
		out.WriteString(line)
	}
	return out.Bytes()
}

// writeBundle writes files as a compressed archive with one directory in it. Nothing in it
// depends on when or by whom it is written.
func writeBundle(to io.Writer, dir string, at time.Time, files []bundleFile) error {
	z := gzip.NewWriter(to)
	t := tar.NewWriter(z)
	for _, f := range files {
		h := &tar.Header{
			Typeflag: tar.TypeReg, Name: dir + "/" + f.name, Mode: 0o644, Size: int64(len(f.data)),
			ModTime: at.UTC().Truncate(time.Second), Format: tar.FormatUSTAR,
		}
		if err := t.WriteHeader(h); err != nil {
			return fmt.Errorf("writing %s: %w", f.name, err)
		}
		if _, err := t.Write(f.data); err != nil {
			return fmt.Errorf("writing %s: %w", f.name, err)
		}
	}
	if err := t.Close(); err != nil {
		return err
	}
	return z.Close()
}

// bundleDir is the directory in a bundle, and the usual name of its file.
func bundleDir(job events.JobID, n int) string {
	return fmt.Sprintf("failover-%s-%d", events.Token(string(job)), n)
}

func bundleText(d failoverDetail) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Failover %d of job %s: everything that is known of it.\n\n", d.Record.N, d.Job)
	for _, f := range [][2]string{
		{bundleRecord, "the record as it was appended, and what was learned later; it is never edited"},
		{bundleEvidence, "the events that say why, a line each"},
		{bundleDecision, "what was bought and what else could have been: every candidate with its figures or why not"},
		{bundleEvents, fmt.Sprintf("the job's events from %d before the first sign to the record, and all of every lease concerned:", console.Lead)},
		{"", "CloudEvents 1.0, one a line, each with its own hash (sfhash) and that of the one before (prevhash)"},
		{bundlePhases, `each phase with its clock: "control" is the control plane's, "agent" the machine's own`},
		{bundleTrace, "the same as one trace in OTLP JSON, which trace viewers open"},
		{bundleBill, "what both machines were charged; times in it are market time"},
		{bundleLog, "the last output of the machine that was left, safe to print"},
		{bundleHeartbeat, "its last heartbeat and GPU sample"},
		{bundleManifest, "every other file with its SHA-256"},
	} {
		fmt.Fprintf(&b, "  %-26s %s\n", f[0], f[1])
	}
	b.WriteString(`
The hash of an event is SHA-256 over ce-id, a zero byte, the id, a zero byte; the same with ce-type and type, with ce-prevhash
and prevhash, and with Sf-Commands and sfcommands; then data, byte for byte. 'spotferry failover verify FILE' checks all of it.
Lines of output in events.jsonl are as the trainer wrote them: do not print them on a terminal.
The job's specification, with its environment, is not in here.
`)
	return b.String()
}
