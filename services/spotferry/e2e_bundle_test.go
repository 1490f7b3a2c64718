package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// A bundle is read here as somebody would who has only its README: nothing of the
// program is used, not even for the names of its fields.

// bundle is one that was opened.
type bundle struct {
	dir    string
	files  map[string]string
	told   struct{ Event string }
	record record
	bill   []billed
	// decision has when it was made by both clocks.
	decision struct {
		Choice struct {
			Decision struct {
				Control time.Time `json:"control_time"`
				Market  time.Time `json:"market_time"`
			}
		}
	}
	events []bundledEvent
}

type record struct {
	N        int
	Cause    string
	Detail   string
	Evidence []string
	From, To recordSide
	Noticed  bool
	NoticeMS int64 `json:"notice_ms"`
	UsedMS   int64 `json:"used_ms"`
	Began    time.Time
	Ended    time.Time
	Phases   []recordPhase
	Resumed  struct {
		Step    int
		Weights string
	}
	LastStep  int    `json:"last_step"`
	LostSteps int64  `json:"lost_steps"`
	LostMS    int64  `json:"lost_ms"`
	LostCost  string `json:"lost_cost"`
	Decision  string
	Drill     bool
}

type recordSide struct {
	Epoch int
	Lease string
	Price string
}

type recordPhase struct {
	Name  string
	Began time.Time
	MS    int64
	Clock string
}

func (p recordPhase) ended() time.Time { return p.Began.Add(time.Duration(p.MS) * time.Millisecond) }

type billed struct {
	Lease    string
	State    string
	From     time.Time `json:"market_from"`
	Amount   string
	Finality string
	Segments []struct {
		Price string `json:"billed_price"`
	}
}

type bundledEvent struct {
	ID, Type, Subject, Sequence string
	Time                        time.Time
	Prev                        string `json:"prevhash"`
	Commands                    string `json:"sfcommands"`
	Hash                        string `json:"sfhash"`
	Traceparent                 string
	Data                        json.RawMessage
}

// kind is the type without its prefix and version.
func (e bundledEvent) kind() string {
	f := strings.Split(e.Type, ".")
	return strings.Join(f[max(len(f)-3, 0):max(len(f)-1, 0)], ".")
}

func openBundle(t *testing.T, path string) *bundle {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	b := &bundle{files: map[string]string{}}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		dir, name, ok := strings.Cut(h.Name, "/")
		if err != nil || !ok || h.Typeflag != tar.TypeReg || (b.dir != "" && b.dir != dir) {
			t.Fatalf("the archive holds %q (%v)", h.Name, err)
		}
		b.dir, b.files[name] = dir, string(data)
	}
	b.read(t, "record.json", &b.told)
	var whole struct{ Record record }
	b.read(t, "record.json", &whole)
	b.record = whole.Record
	b.read(t, "bill.json", &b.bill)
	b.read(t, "decision.json", &b.decision)
	for line := range strings.Lines(b.files["events.jsonl"]) {
		var e bundledEvent
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("events.jsonl: %v: %.200q", err, line)
		}
		b.events = append(b.events, e)
	}
	return b
}

func (b *bundle) read(t *testing.T, name string, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(b.files[name]), into); err != nil {
		t.Fatalf("%s: %v: %.200q", name, err, b.files[name])
	}
}

// event is one of the events by its id.
func (b *bundle) event(t *testing.T, id string) bundledEvent {
	t.Helper()
	i := slices.IndexFunc(b.events, func(e bundledEvent) bool { return e.ID == id })
	if i < 0 {
		t.Fatalf("there is no event %q", id)
	}
	return b.events[i]
}

func (b *bundle) phase(t *testing.T, name string) recordPhase {
	t.Helper()
	i := slices.IndexFunc(b.record.Phases, func(p recordPhase) bool { return p.Name == name })
	if i < 0 {
		t.Fatalf("there is no phase %q", name)
	}
	return b.record.Phases[i]
}

func digest(parts ...string) string {
	h := sha256.Sum256([]byte(strings.Join(parts, "")))
	return hex.EncodeToString(h[:])
}

// isWhole checks every file and every event as the bundle's README says it can be done.
func (b *bundle) isWhole(t *testing.T) {
	t.Helper()
	var m struct {
		Files []struct {
			Name, SHA256 string
			Bytes        int
		}
	}
	b.read(t, "manifest.json", &m)
	for _, f := range m.Files {
		if data, ok := b.files[f.Name]; !ok || len(data) != f.Bytes || digest(data) != f.SHA256 {
			t.Errorf("%s is not what the manifest says", f.Name)
		}
	}
	if len(m.Files) != len(b.files)-1 {
		t.Errorf("%d files, %d in the manifest", len(b.files), len(m.Files))
	}
	last := map[string]bundledEvent{}
	for _, e := range b.events {
		if got := digest("ce-id\x00", e.ID, "\x00ce-type\x00", e.Type, "\x00ce-prevhash\x00", e.Prev, "\x00Sf-Commands\x00", e.Commands, "\x00", string(e.Data)); got != e.Hash {
			t.Errorf("event %s: its hash is %s, it says %s", e.ID, got, e.Hash)
		}
		if prev, ok := last[e.Subject]; ok && numeral(prev.Sequence)+1 == numeral(e.Sequence) && e.Prev != prev.Hash {
			t.Errorf("event %s does not follow %s", e.ID, prev.ID)
		}
		last[e.Subject] = e
	}
}

func numeral(s string) (n int) {
	_, _ = fmt.Sscan(s, &n)
	return n
}

// resign writes the manifest anew, as somebody would who changes a bundle with care.
func (b *bundle) resign(t *testing.T, files map[string]string) {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal([]byte(files["manifest.json"]), &m); err != nil {
		t.Fatal(err)
	}
	list, _ := m["files"].([]any)
	for _, f := range list {
		entry, _ := f.(map[string]any)
		name, _ := entry["name"].(string)
		entry["sha256"], entry["bytes"] = digest(files[name]), len(files[name])
	}
	text, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	files["manifest.json"] = string(text)
}

func (b *bundle) pack(t *testing.T, files map[string]string) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	w := tar.NewWriter(z)
	for name, data := range files {
		err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: b.dir + "/" + name, Mode: 0o644, Size: int64(len(data))})
		if err == nil {
			_, err = w.Write([]byte(data))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}
