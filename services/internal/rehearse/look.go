package rehearse

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spotferry/spotferry/checkpoint/framework"
	"github.com/spotferry/spotferry/events"
)

// Look is what was found on a job's machine where checkpoints should be.
type Look struct {
	Trainer    time.Time // when run was started; zero: not yet
	Dir        string    // below the job's own directory
	Missing    bool      // there is no such directory
	Names      []string  // in it, a few
	More       int       // further names
	Framework  string    // given, or told by what is there; "": nobody knows
	Candidates []string  // what is called like a checkpoint, and why it is none
	Elsewhere  []string  // what looks like one somewhere else, below the job's own directory
}

const (
	mostNames   = 8
	mostWalked  = 20_000
	ownDir      = ".spotferry"
	workDir     = "work"
	scriptFile  = "run.sh"
	machinesDir = "instances"
	machineDir  = "machine"
)

// machineOf is a lease's machine in the directory of the local seller.
func machineOf(seller string, lease events.LeaseID) string {
	return filepath.Join(seller, machinesDir, string(lease), machineDir)
}

// LookAt looks for checkpoints on a machine. What cannot be read is left out.
func LookAt(machine string, p events.CheckpointPolicy) Look {
	l := Look{Dir: p.Dir, Framework: p.Framework}
	if l.Dir == "" {
		l.Dir = "checkpoints"
	}
	l.Trainer = trainerSince(machine)
	work := filepath.Join(machine, workDir)
	root, err := os.OpenRoot(filepath.Join(work, l.Dir))
	if err != nil {
		l.Missing = true
	} else {
		l.names(root)
		l.candidates(root, p)
		_ = root.Close() // only read
	}
	l.elsewhere(work)
	return l
}

// trainerSince is when the job's run was started on a machine; zero: not yet.
func trainerSince(machine string) time.Time {
	info, err := os.Lstat(filepath.Join(machine, scriptFile))
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

func (l *Look) names(root *os.Root) {
	f, err := root.Open(".")
	if err != nil {
		return
	}
	defer f.Close()
	all, err := f.Readdirnames(mostWalked)
	if err != nil {
		return
	}
	all = slices.DeleteFunc(all, func(n string) bool { return n == ownDir })
	slices.Sort(all)
	l.Names, l.More = all[:min(len(all), mostNames)], max(len(all)-mostNames, 0)
}

// candidates asks the framework's adapter what it takes for checkpoints and why
// they are not whole.
func (l *Look) candidates(root *os.Root, p events.CheckpointPolicy) {
	cfg := framework.Config{Marker: p.Marker}
	var a framework.Adapter
	var err error
	if p.Framework == "" {
		a, err = framework.Detect(root, cfg)
	} else {
		a, err = framework.New(p.Framework, cfg)
	}
	if err != nil || a == nil {
		return
	}
	l.Framework = a.Name()
	cs, err := a.Candidates(root)
	if err != nil {
		return
	}
	for _, c := range cs[:min(len(cs), 3)] {
		_, _, _ = a.Complete(root, c) // it takes two looks
		ok, why, err := a.Complete(root, c)
		switch {
		case err != nil:
			why = err.Error()
		case ok:
			why = "it is whole"
		}
		l.Candidates = append(l.Candidates, fmt.Sprintf("%q: %s", c.Name, why))
	}
}

// elsewhere finds what looks like a checkpoint outside of the watched directory.
func (l *Look) elsewhere(work string) {
	walked := 0
	_ = filepath.WalkDir(work, func(path string, d fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(work, path)
		walked++
		switch {
		case err != nil:
			return nil
		case walked > mostWalked || len(l.Elsewhere) >= 3:
			return filepath.SkipAll
		case d.IsDir() && (rel == l.Dir || d.Name() == ownDir || d.Name() == ".git" || d.Name() == "site-packages" || d.Name() == "node_modules"):
			return filepath.SkipDir
		case !looksLikeOne(d):
			return nil
		}
		if info, err := d.Info(); err != nil || !l.Trainer.IsZero() && info.ModTime().Before(l.Trainer) {
			return nil // it came with the job's files
		}
		l.Elsewhere = append(l.Elsewhere, rel)
		if d.IsDir() {
			return filepath.SkipDir
		}
		return nil
	})
}

func looksLikeOne(d fs.DirEntry) bool {
	name := strings.ToLower(d.Name())
	if d.IsDir() {
		return strings.HasPrefix(name, "checkpoint-") || strings.HasPrefix(name, "checkpoint_") || strings.HasPrefix(name, "global_step")
	}
	switch filepath.Ext(name) {
	case ".ckpt", ".safetensors", ".pt", ".pth", ".distcp":
		return d.Type().IsRegular()
	}
	return false
}

// words say it in a line.
func (l Look) words() string {
	s := "watched was the directory $SPOTFERRY_CHECKPOINT_DIR, " + l.Dir + " in the job's own: "
	switch {
	case l.Missing:
		s += "there is none."
	case len(l.Candidates) > 0:
		s += strings.Join(l.Candidates, "; ") + "."
	case len(l.Names) == 0:
		s += "it is empty."
	default:
		s += "it has " + strings.Join(l.Names, ", ")
		if l.More > 0 {
			s += fmt.Sprintf(" and %d more", l.More)
		}
		s += ", none of which is taken for a checkpoint."
	}
	if len(l.Elsewhere) > 0 {
		s += " What looks like one lies elsewhere, in the job's own directory: " + strings.Join(l.Elsewhere, ", ") + "."
	}
	return s
}

// suggestDir is the directory that is meant, if what was found names one.
func (l Look) suggestDir() string {
	for _, e := range l.Elsewhere {
		if dir := filepath.Dir(e); dir != "." {
			return ", here " + dir
		}
	}
	return ""
}
