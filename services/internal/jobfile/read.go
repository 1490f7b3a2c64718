package jobfile

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/spotferry/spotferry/events"
)

const (
	maxFile     = 128 << 10 // bytes of a job file; the parser may take 200 times that
	maxSpec     = 512 << 10 // bytes of the spec as it travels; the bus carries at most 1 MiB in one message
	maxProblems = 20        // refusals said about one file; warnings are bounded by the table
)

// Options is what a job file is read with besides its text.
type Options struct {
	// Now is when it is read; a deadline such as +36h counts from its market time.
	// Zero: nobody knows, and no date is judged.
	Now events.Moment
	// Env has the variables given on the command line. They win over the file's
	// and supply those that the file leaves empty. Secrets are the same for secrets.
	Env     map[string]string
	Secrets map[string]events.Secret
	// Budget and Deadline, when given, win over the policy's. With a budget from
	// the command line a file of SkyPilot's runs as it is.
	Budget, Deadline string
	// Dir is what a relative path on this machine is relative to; empty leaves it as it is.
	Dir string
	// Home replaces ~ in a path on this machine; empty: ~ is refused.
	Home string
	// Stat looks whether what is to be packed is there (os.Stat); nil does not look.
	Stat func(path string) (fs.FileInfo, error)
}

// Job is a job file that was understood.
type Job struct {
	Spec       events.JobSpec
	Labels     map[string]string        // resources.labels, for the job's attribution
	Workdir    string                   // directory to Pack; "" for none
	Repository *Repository              // to fetch and Pack as the workdir; nil for none
	Mounts     []Mount                  // to Pack besides
	Secrets    map[string]events.Secret // Spec has their names
	Warnings   []Problem                // warnings and notes, in the order of the file
}

// Read understands the job file src; name is what messages call it. If
// anything in it cannot be done the error is an *Error that has every reason.
//
// Spec.Workdir and Spec.Mounts are left empty: whoever packs knows where it went.
func Read(name string, src []byte, opt Options) (Job, error) {
	r := newReader(name, src, opt)
	if root := r.document(); root != nil {
		r.mapping("", root)
		r.sealed()
		r.environment()
		r.together()
		r.fits()
	}
	return r.result()
}

// reader holds what is known of one file while it is read.
type reader struct {
	name  string
	src   []byte
	lines []string
	shown map[int]string // lines as they may be shown
	opt   Options
	keys  map[string]key

	at       map[string]place // where the value of each key that was read stands
	values   int              // visited so far, aliases counted each time
	envs     map[string]variable
	secrets  map[string]secret
	ref      string // workdir.ref
	useSpot  *bool
	base     events.Place // where resources itself says
	variants []variant    // of any_of or ordered

	job      Job
	found    []Problem
	refusals int // beyond maxProblems they are only counted
}

// place is a position in the file, from 1; zero is none.
type place struct{ line, col int }

func newReader(name string, src []byte, opt Options) *reader {
	r := &reader{
		name: name, src: src, opt: opt,
		keys: map[string]key{}, at: map[string]place{}, envs: map[string]variable{}, secrets: map[string]secret{}, shown: map[int]string{},
	}
	for _, k := range table() {
		r.keys[k.path] = k
	}
	return r
}

func (r *reader) result() (Job, error) {
	var refused []Problem
	for _, p := range r.found {
		if p.Severity == Refused {
			refused = append(refused, p)
		} else {
			r.job.Warnings = append(r.job.Warnings, p)
		}
	}
	if len(refused) == 0 {
		inOrder(r.job.Warnings)
		return r.job, nil
	}
	inOrder(refused)
	inOrder(r.job.Warnings)
	if more := r.refusals - maxProblems; more > 0 {
		refused = append(refused, Problem{File: r.name, Severity: Refused,
			Message: fmt.Sprintf("and %d more problems", more), Remedy: "mend these first"})
	}
	return Job{}, &Error{refused, r.job.Warnings}
}

// say records a problem. Messages must not quote what may be a credential.
func (r *reader) say(s Severity, at place, field, remedy, format string, args ...any) {
	if s == Refused {
		if r.refusals++; r.refusals > maxProblems {
			return
		}
	}
	p := Problem{
		File: r.name, Line: at.line, Col: at.col, Field: field, Severity: s,
		Message: fmt.Sprintf(format, args...), Remedy: remedy,
	}
	p.Source, p.caret = r.excerpt(at.line, at.col)
	r.found = append(r.found, p)
}

func (r *reader) refuse(at place, field, remedy, format string, args ...any) {
	r.say(Refused, at, field, remedy, format, args...)
}

func (r *reader) warn(at place, field, remedy, format string, args ...any) {
	r.say(Warning, at, field, remedy, format, args...)
}

func (r *reader) note(at place, field, format string, args ...any) {
	r.say(Note, at, field, "", format, args...)
}

// fits refuses a job that could not travel in one message.
func (r *reader) fits() {
	b, err := json.Marshal(r.job.Spec)
	if err != nil {
		r.refuse(place{}, "", "", "the job cannot be written down: %v", err)
		return
	}
	if len(b) > maxSpec {
		r.refuse(place{1, 1}, "", "put long commands into a script in the workdir and call it from run",
			"the job takes %d bytes as it travels; at most %d fit", len(b), maxSpec)
	}
}

// nameFromFile is what a job without a name is called.
func nameFromFile(file string) string {
	base := filepath.Base(file)
	base = strings.TrimSuffix(base, filepath.Ext(base))
	if checkName(base) != "" {
		return "job"
	}
	return base
}
