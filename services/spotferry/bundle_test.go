package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spotferry/spotferry/bidder"
	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/events/eventstest"
	"github.com/spotferry/spotferry/failover"
	"github.com/spotferry/spotferry/services/internal/console"
)

const bundleOrg events.OrgID = "acme"

const plantedValue = "hunter2-in-the-environment"

// story is a job that was given notice and moved, told by real events.
type story struct {
	t    *testing.T
	log  *eventstest.Log
	jobs *failover.Book
	now  time.Time
	last map[events.LeaseID]*events.Event
}

func (s *story) do(d time.Duration, in failover.Input) {
	s.t.Helper()
	s.now = s.now.Add(d)
	var err error
	if sub, ok := in.(failover.Submit); ok {
		_, err = s.jobs.Submit(s.t.Context(), cannedJob, sub)
	} else {
		_, _, err = s.jobs.Apply(s.t.Context(), cannedJob, in)
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *story) lease(id events.LeaseID, f events.Fact) events.Event {
	s.t.Helper()
	prev := s.last[id]
	var after uint64
	if prev != nil {
		after = prev.Position
	}
	e, err := events.Follow(events.LeaseAggregate(bundleOrg, id), prev, f)
	if err == nil {
		e.Time = s.now
		e, err = s.log.Append(s.t.Context(), after, e)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	s.last[id] = &e
	return e
}

// learn appends what comes behind the record.
func (s *story) learn(f events.Fact) {
	s.t.Helper()
	agg := events.JobAggregate(bundleOrg, cannedJob)
	evs, err := s.log.Read(s.t.Context(), agg, 0)
	if err != nil {
		s.t.Fatal(err)
	}
	last := evs[len(evs)-1]
	e, err := events.Follow(agg, &last, f)
	if err == nil {
		e.Time = s.now
		_, err = s.log.Append(s.t.Context(), last.Position, e)
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *story) buy(epoch int) events.LeaseID {
	s.t.Helper()
	id := cannedJob.Lease(epoch, 1)
	s.now = s.now.Add(40 * time.Millisecond)
	offer := cannedOffer("north-b", events.Spot, 918_000_000)
	offer.Seen, offer.TTLS = s.now, 60
	d := bidder.Decide(bidder.Situation{Now: events.Moment{Control: s.now, Market: s.now}, Spec: bundleSpec(), Inputs: events.Inputs{
		WorkLeftS: 3600, TimeLeftS: -1, WindowS: -1, Budget: 20 * events.Dollar, CommitMS: -1, HorizonS: 600, RetryMS: 60_000, Scale: 1,
	}, Quotes: []bidder.Quote{{Offer: offer, Hazard: 0.1, Life: 3, Stood: time.Hour}}})
	intent := s.lease(id, events.LeaseIntended{Job: cannedJob, Epoch: epoch, N: 1, Purpose: events.ForReplace, Offer: offer, Decision: d})
	s.now = s.now.Add(900 * time.Millisecond)
	launched := s.lease(id, events.LeaseLaunched{Instance: "i-0042", Price: offer.Price, BootBy: s.now.Add(time.Hour), TookMS: 850})
	s.do(0, failover.Bought{Lease: id, Intent: intent, Launched: launched})
	s.do(4*time.Second, failover.Joined{JobJoined: events.JobJoined{Epoch: epoch, Lease: id, Key: "U"}})
	return id
}

func bundleSpec() events.JobSpec {
	return events.JobSpec{Name: hostile, Run: "train", Envs: map[string]string{"TOKEN": plantedValue}, Policy: events.Policy{Budget: 20 * events.Dollar}}
}

// tell plays the story and returns its report and its events.
func tell(t *testing.T) (failoverDetail, []console.EventLine) {
	s := &story{t: t, log: eventstest.New(0), now: start, last: map[events.LeaseID]*events.Event{}}
	s.jobs = failover.NewBook(s.log, func() events.Moment { return events.Moment{Control: s.now, Market: s.now} })
	s.do(0, failover.Submit{By: "ann", Attribution: events.Attribution{Org: bundleOrg}, Spec: bundleSpec()})
	a := s.buy(1)
	s.do(2*time.Second, failover.Stepped{JobStarted: events.JobStarted{Epoch: 1, Lease: a, Step: 1}})
	s.do(30*time.Second, failover.Noticed{JobNoticed: events.JobNoticed{Epoch: 1, Lease: a, Action: "terminate", Source: "imds", Seen: s.now.Add(30 * time.Second), Deadline: s.now.Add(150 * time.Second)}})
	s.do(3*time.Second, failover.Committed{JobCommitted: events.JobCommitted{Epoch: 1, Lease: a, Final: true, SaveMS: 1500, UploadMS: 800, Checkpoint: cannedCheckpoint(1, 10)}})
	b := s.buy(2)
	s.do(2*time.Second, failover.Stepped{JobStarted: events.JobStarted{Epoch: 2, Lease: b, From: 10, Step: 11, Before: 25, Clock: events.AgentClock{SetupMS: 900, RestoreMS: 400}}})
	s.learn(events.JobLastWords{Epoch: 1, Lease: a, Lines: []events.LogLine{{At: s.now, Stream: "stderr", Text: hostile}, {At: s.now, Stream: "stdout", Text: "loss 0.1"}},
		Heartbeat: &events.Heartbeat{Lease: a, State: "training", Step: 25, GPUs: []events.GPUSample{{Name: "V100", Util: 0.9}}, At: s.now}})
	s.learn(events.JobFailoverRefined{N: 1, Cause: events.CauseHostFault, Detail: "the seller's own list", Evidence: []events.EventID{"x-1"}})
	return s.report()
}

// report is what the console would answer.
func (s *story) report() (failoverDetail, []console.EventLine) {
	s.t.Helper()
	var lines []console.EventLine
	d := failoverDetail{FailoverReport: console.FailoverReport{Of: 1}}
	all := append(s.log.Events(events.FilterJobs)[1:], s.log.Events(events.FilterLeases)...)
	slices.SortFunc(all, func(a, b events.Event) int { return int(a.Position) - int(b.Position) })
	for _, e := range all {
		l, err := console.NewEventLine(e)
		if err != nil {
			s.t.Fatal(err)
		}
		lines = append(lines, l)
		switch f := e.Fact.(type) {
		case events.JobFailedOver:
			d.Failover = console.Failover{Job: cannedJob, Name: hostile, Event: e.ID, Record: f.Record, Cause: f.Record.Cause, Detail: f.Record.Detail}
		case events.JobFailoverRefined:
			d.Cause, d.Detail = f.Cause, f.Detail
			d.Refined = append(d.Refined, console.Refinement{Event: e.ID, Time: e.Time, Cause: f.Cause, Detail: f.Detail, Evidence: f.Evidence})
		case events.JobLastWords:
			d.LastWords = &console.LastWords{Event: e.ID, Time: e.Time, JobLastWords: f}
		case events.LeaseIntended:
			d.Choice = &console.Choice{Event: e.ID, Time: e.Time, Lease: events.LeaseID(e.Aggregate.ID), Decision: f.Decision, Replay: console.Replay{Same: true}}
		}
	}
	if d.Record.N != 1 {
		s.t.Fatal("the job has not failed over")
	}
	d.Trace = d.Record.Trace().String()
	d.Evidence = []console.Evidence{{ID: d.Record.Evidence[0], Type: "job.noticed", Summary: hostile}}
	d.Bill = cannedBill().Lines
	return d, lines
}

// unpack reads an archive as anybody would, with nothing of ours.
func unpack(t *testing.T, b []byte) map[string][]byte {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]byte{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Typeflag != tar.TypeReg || h.Mode != 0o644 || filepath.Clean(h.Name) != h.Name || strings.HasPrefix(h.Name, "/") || strings.Contains(h.Name, "..") || unsafeIn(h.Name) {
			t.Errorf("entry %q of type %c, mode %o", h.Name, h.Typeflag, h.Mode)
		}
		dir, name, _ := strings.Cut(h.Name, "/")
		if dir != "failover-"+string(cannedJob)+"-1" {
			t.Errorf("entry %q", h.Name)
		}
		if out[name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
}

func packed(t *testing.T, d failoverDetail, lines []console.EventLine) []byte {
	t.Helper()
	files, err := bundleFiles(d, lines, "v1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := writeBundle(&out, bundleDir(d.Job, d.Record.N), d.Record.Ended, files); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestABundleIsReadByOthersAndItsFiguresAreTheEvents(t *testing.T) {
	t.Parallel()
	d, lines := tell(t)
	files := unpack(t, packed(t, d, lines))
	var m struct {
		Version int `json:"bundle_version"`
		Files   []struct{ Name, SHA256 string }
	}
	if err := json.Unmarshal(files["manifest.json"], &m); err != nil || m.Version != 1 || len(m.Files) != len(files)-1 {
		t.Fatalf("manifest of %d files: %v", len(m.Files), err)
	}
	for _, f := range m.Files {
		if got := fmt.Sprintf("%x", sha256.Sum256(files[f.Name])); got != f.SHA256 {
			t.Errorf("%s has %s", f.Name, got)
		}
	}
	// The record that the log has, word for word, is the one in the bundle.
	var record struct{ Record json.RawMessage }
	if err := json.Unmarshal(files["record.json"], &record); err != nil {
		t.Fatal(err)
	}
	var said map[string]json.RawMessage
	prev := map[string]string{}
	for line := range bytes.Lines(files["events.jsonl"]) {
		var e struct {
			ID, Type, Subject, PrevHash, SFHash, SFCommands string
			Data                                            json.RawMessage
		}
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatal(err)
		}
		h := sha256.New()
		for _, kv := range [][2]string{{"ce-id", e.ID}, {"ce-type", e.Type}, {"ce-prevhash", e.PrevHash}, {"Sf-Commands", e.SFCommands}} {
			h.Write([]byte(kv[0] + "\x00" + kv[1] + "\x00"))
		}
		h.Write(e.Data)
		if got := fmt.Sprintf("%x", h.Sum(nil)); got != e.SFHash {
			t.Errorf("%s has hash %s, says %s", e.ID, got, e.SFHash)
		}
		if p, ok := prev[e.Subject]; ok && p != e.PrevHash {
			t.Errorf("%s does not follow", e.ID)
		}
		prev[e.Subject] = e.SFHash
		if e.Type == "io.spotferry.job.failed-over.v1" {
			if err := json.Unmarshal(e.Data, &said); err != nil {
				t.Fatal(err)
			}
		}
	}
	var is, was any
	if json.Unmarshal(record.Record, &is) != nil || json.Unmarshal(said["record"], &was) != nil || fmt.Sprint(is) != fmt.Sprint(was) || is == nil {
		t.Errorf("record\n%s\nevent\n%s", record.Record, said["record"])
	}
	rows, err := csv.NewReader(bytes.NewReader(files["phases.csv"])).ReadAll()
	if err != nil || len(rows) != len(d.Record.Phases)+1 {
		t.Errorf("phases: %v, %v", rows, err)
	}
	var trace struct {
		ResourceSpans []struct {
			ScopeSpans []struct {
				Spans []struct{ TraceID, SpanID, ParentSpanID, Name string }
			}
		}
	}
	if err := json.Unmarshal(files["trace.json"], &trace); err != nil {
		t.Fatal(err)
	}
	roots, launches := 0, 0
	for _, s := range trace.ResourceSpans[0].ScopeSpans[0].Spans {
		if s.TraceID != d.Trace {
			t.Errorf("%s is of trace %s", s.Name, s.TraceID)
		}
		if s.ParentSpanID == "" {
			roots++
		}
		if s.Name == "launch" {
			launches++
		}
	}
	if roots != 1 || launches != 1 {
		t.Errorf("%d roots, %d launches", roots, launches)
	}
	for name, data := range files {
		if bytes.Contains(data, []byte(plantedValue)) {
			t.Errorf("%s has the user's environment in it", name)
		}
		if name != "events.jsonl" && unsafeIn(string(data)) {
			t.Errorf("%s would act on a terminal", name)
		}
	}
	for _, v := range verifyBundle(files) {
		if !v.OK {
			t.Errorf("%s: %s", v.Check, v.Detail)
		}
	}
}

func TestTheSameMoveGivesTheSameBytes(t *testing.T) {
	t.Parallel()
	d, lines := tell(t)
	again, more := tell(t)
	if !bytes.Equal(packed(t, d, lines), packed(t, again, more)) {
		t.Error("two bundles of one move differ")
	}
}

func TestALogOfAnySizeIsBounded(t *testing.T) {
	t.Parallel()
	d, lines := tell(t)
	d.LastWords.Lines = slices.Repeat([]events.LogLine{{At: start, Stream: "stdout", Text: strings.Repeat("x", 60_000)}}, 100)
	if files := unpack(t, packed(t, d, lines)); len(files["last-words/log.txt"]) > mostLog+100 || !bytes.HasSuffix(files["last-words/log.txt"], []byte("has it)\n")) {
		t.Errorf("%d bytes", len(files["last-words/log.txt"]))
	}
}

// Whatever is changed, some check says so.
func TestAChangedBundleIsFoundOut(t *testing.T) {
	t.Parallel()
	d, lines := tell(t)
	whole := unpack(t, packed(t, d, lines))
	// reseal makes the manifest fit again: whoever forges a file can do that.
	reseal := func(files map[string][]byte) {
		var m manifest
		if err := json.Unmarshal(files[bundleManifest], &m); err != nil {
			t.Fatal(err)
		}
		for i, f := range m.Files {
			m.Files[i].Bytes, m.Files[i].SHA256 = len(files[f.Name]), sha256Hex(files[f.Name])
		}
		files[bundleManifest], _ = json.Marshal(m)
	}
	replace := func(name, old, new string) func(map[string][]byte) {
		return func(f map[string][]byte) {
			if !bytes.Contains(f[name], []byte(old)) {
				t.Fatalf("%s has no %q:\n%s", name, old, f[name])
			}
			f[name] = bytes.Replace(f[name], []byte(old), []byte(new), 1)
		}
	}
	without := func(kind string) func(map[string][]byte) {
		return func(f map[string][]byte) {
			var kept []byte
			for l := range bytes.Lines(f[bundleEvents]) {
				if !bytes.Contains(l, []byte(kind)) {
					kept = append(kept, l...)
				}
			}
			f[bundleEvents] = kept
		}
	}
	for _, tc := range []struct {
		name   string
		change func(map[string][]byte)
		sealed bool
		caught string
	}{
		{"a file that is gone", func(f map[string][]byte) { delete(f, bundleBill) }, false, "manifest"},
		{"a file too many", func(f map[string][]byte) { f["more.txt"] = nil }, false, "manifest"},
		{"a letter", replace(bundleReadme, "Failover", "failover"), false, "manifest"},
		{"no manifest", func(f map[string][]byte) { delete(f, bundleManifest) }, false, "manifest"},
		{"fewer steps lost", replace(bundleRecord, `"lost_steps": 15`, `"lost_steps": 5`), true, "record"},
		{"fewer steps lost in the event too", replace(bundleEvents, `"lost_steps":15`, `"lost_steps":5`), true, "events"},
		{"another cause", replace(bundleRecord, `"cause": "host-fault"`, `"cause": "outbid"`), true, "record"},
		{"another price", replace(bundleDecision, `"0.918000000"`, `"0.818000000"`), true, "decision"},
		{"a quicker boot", replace(bundlePhases, "boot", "toot"), true, "phases"},
		{"another span", replace(bundleTrace, `"name": "boot"`, `"name": "toot"`), true, "trace"},
		{"another last word", replace(bundleLog, "loss 0.1", "loss 0.9"), true, "last words"},
		{"another last heartbeat", replace(bundleHeartbeat, `"step": 25`, `"step": 26`), true, "last words"},
		{"an event left out", without("job.failed-over.v1"), true, "record"},
		{"the first sign left out", without("job.noticed.v1"), true, "complete"},
		{"what went before left out", without("job.started.v1"), true, "complete"},
		{"the decision left out", without("lease.intended.v1"), true, "complete"},
		{"a purchase left out", without("lease.launched.v1"), true, "trace"},
		{"no events", func(f map[string][]byte) { f[bundleEvents] = nil }, true, "events"},
		{"garbage for events", func(f map[string][]byte) { f[bundleEvents] = []byte("{\n\xff\n") }, true, "events"},
		{"garbage for a record", func(f map[string][]byte) { f[bundleRecord] = []byte("[]") }, true, "record"},
	} {
		files := maps.Clone(whole)
		tc.change(files)
		if tc.sealed {
			reseal(files)
		}
		got := ""
		for _, v := range verifyBundle(files) {
			if !v.OK && got == "" {
				got = v.Check
			}
		}
		if got != tc.caught {
			t.Errorf("%s: found out by %q, want %q", tc.name, got, tc.caught)
		}
	}
}

func FuzzReadBundle(f *testing.F) {
	f.Add([]byte("\x1f\x8b"))
	f.Fuzz(func(_ *testing.T, b []byte) {
		if files, err := readBundle(bytes.NewReader(b)); err == nil {
			verifyBundle(files)
		}
	})
}

// moved is a system that knows the story.
func movedSystem(t *testing.T) answers {
	d, lines := tell(t)
	a := system()
	a[console.GetFailover] = always(d.FailoverReport)
	a[console.GetFailoverEvents] = func(body []byte) any { // one at a time
		var q console.FailoverQuery
		if err := json.Unmarshal(body, &q); err != nil {
			return &console.Problem{Code: "invalid", Message: err.Error()}
		}
		for i, l := range lines {
			if l.Position > q.After {
				return console.FailoverEvents{Events: []console.EventLine{l}, Next: l.Position, More: i < len(lines)-1}
			}
		}
		return console.FailoverEvents{Next: q.After}
	}
	return a
}

func TestABundleIsWrittenCheckedAndNotOverwritten(t *testing.T) {
	t.Parallel()
	r := newRig(t, movedSystem(t))
	file := filepath.Join(t.TempDir(), "post mortem.tar.gz")
	if got := r.run("failover", "bundle", "llama-7b", "1", "--to", file); got.code != 0 || !strings.Contains(got.out, "failover verify '"+file+"'") {
		t.Fatalf("exit %d: %s%s", got.code, got.out, got.err)
	}
	first, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got := r.run("failover", "verify", file); got.code != 0 || strings.Contains(got.out, "WRONG") || strings.Count(got.out, " ok ") != 8 {
		t.Errorf("exit %d: %s%s", got.code, got.out, got.err)
	}
	if got := r.run("failover", "show", "llama-7b", "--bundle", file); got.code != 2 || !strings.Contains(got.err, "is there already") {
		t.Errorf("exit %d: %s", got.code, got.err)
	}
	trace := filepath.Join(t.TempDir(), "spans.json")
	if got := r.run("failover", "show", "llama-7b", "--bundle", file, "--trace", trace, "-y"); got.code != 0 || !strings.Contains(got.out, "Last words") {
		t.Errorf("exit %d: %s", got.code, got.err)
	}
	second, err := os.ReadFile(file)
	spans, err2 := os.ReadFile(trace)
	if err != nil || err2 != nil || !bytes.Equal(first, second) || !bytes.Equal(spans, unpack(t, first)["trace.json"]) {
		t.Errorf("written again it is another: %v, %v", err, err2)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(file), ".spotferry-*")); left != nil {
		t.Errorf("left behind: %v", left)
	}
	second[len(second)/2] ^= 1
	if err := os.WriteFile(file, second, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := r.run("failover", "verify", file); got.code == 0 {
		t.Errorf("a broken one passes: %s", got.out)
	}
	for _, name := range []string{filepath.Join(file, "x"), filepath.Join(t.TempDir(), "no", "such")} {
		if got := r.run("failover", "bundle", "llama-7b", "--to", name); got.code != 2 {
			t.Errorf("%s: exit %d: %s", name, got.code, got.err)
		}
		if got := r.run("failover", "verify", name); got.code != 2 {
			t.Errorf("%s: exit %d: %s", name, got.code, got.err)
		}
	}
}
