package rehearse

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spotferry/spotferry/events"
)

// Record is a rehearsal as it is kept beside its job file, for plans.
type Record struct {
	Format  int       `json:"format"`
	At      time.Time `json:"at"`
	Version string    `json:"version"` // of the program
	Job     string    `json:"job"`
	// Key is Key of the job it was made with. Another script has other figures.
	Key     string  `json:"key"`
	Machine Machine `json:"machine"`
	Verdict Kind    `json:"verdict"`
	Figures Figures `json:"figures"`
}

// Machine is where figures were measured.
type Machine struct {
	CPU         string   `json:"cpu"`
	CPUs        int      `json:"cpus"`
	MemoryBytes int64    `json:"memory_bytes"`
	GPUs        []string `json:"gpus"` // as their driver calls them; empty: none
}

// String says it in a few words.
func (m Machine) String() string {
	cpu := fmt.Sprintf("%d CPUs", m.CPUs)
	if m.CPU != "" {
		cpu += " (" + m.CPU + ")"
	}
	if len(m.GPUs) == 0 {
		return cpu + ", no GPU"
	}
	return fmt.Sprintf("%s, %d×%s", cpu, len(m.GPUs), m.GPUs[0])
}

// Has says whether the machine has just the GPUs that an accelerator asks for.
// Drivers say more than people do: "NVIDIA H100 80GB HBM3" is an H100.
func (m Machine) Has(a events.Accelerator) bool {
	words := strings.FieldsFunc(strings.ToUpper(a.Model), func(r rune) bool { return r == '-' || r == ' ' })
	if a.Count != len(m.GPUs) || a.Count == 0 {
		return false
	}
	for _, g := range m.GPUs {
		g = strings.NewReplacer("-", " ").Replace(strings.ToUpper(g))
		for _, w := range words {
			if !strings.Contains(" "+g+" ", " "+w+" ") {
				return false
			}
		}
	}
	return true
}

const recordFormat = 1

// recordLimit is more than any record has.
const recordLimit = 1 << 20

// ErrNoRecord says that there is no such file.
var ErrNoRecord = errors.New("no rehearsal")

// Key names what a job's figures depend on, as far as its file says: the script,
// its setup, its variables, its way of saving, and what it mounts. The content of
// files is not looked at: a working directory changes with every file that is
// written beside it, such as the record itself.
func Key(spec events.JobSpec) string {
	var mounts []string
	for _, m := range spec.Mounts {
		mounts = append(mounts, m.Path)
	}
	b, err := json.Marshal(struct {
		Setup, Run string
		Envs       map[string]string
		Secrets    []string
		Mounts     []string
		Checkpoint events.CheckpointPolicy
	}{spec.Setup, spec.Run, spec.Envs, spec.Secrets, mounts, spec.Policy.Checkpoint})
	if err != nil {
		return "" // strings, numbers and maps of strings can always be written
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:12])
}

// Beside is where the record of a job file is kept: train.yaml has
// train.rehearsal.json. It stays with the file, in its repository if it is in
// one, whichever system the job is planned on.
func Beside(file string) string {
	return strings.TrimSuffix(file, filepath.Ext(file)) + ".rehearsal.json"
}

// Save writes a record, whole or not at all.
func (r Record) Save(path string) error {
	r.Format = recordFormat
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".rehearsal-*")
	if err != nil {
		return fmt.Errorf("keeping the rehearsal: %w", err)
	}
	_, err = f.Write(append(b, '\n'))
	err = errors.Join(err, f.Chmod(0o644), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("keeping the rehearsal: %w", errors.Join(err, os.Remove(f.Name())))
	}
	return nil
}

// Load reads a record, or returns ErrNoRecord.
func Load(path string) (Record, error) {
	var r Record
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return r, fmt.Errorf("%s: %w", path, ErrNoRecord)
	}
	if err == nil && (!info.Mode().IsRegular() || info.Size() > recordLimit) {
		err = errors.New("it is no file of a rehearsal")
	}
	var b []byte
	if err == nil {
		b, err = os.ReadFile(path)
	}
	if err == nil {
		err = json.Unmarshal(b, &r)
	}
	switch {
	case err != nil:
		return Record{}, fmt.Errorf("%s: %w: rehearse again", path, err)
	case r.Format > recordFormat || r.Format < 1:
		return Record{}, fmt.Errorf("%s has format %d, this program knows %d: rehearse again, or use the program that wrote it (%s)", path, r.Format, recordFormat, r.Version)
	}
	return r, nil
}
