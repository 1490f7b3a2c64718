package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// The verdicts.
const (
	passes     = "PASSES" // the unchanged tree
	fails      = "FAILS"  // the unchanged tree
	caught     = "CAUGHT"
	missed     = "MISSED"
	notApplied = "DOES NOT APPLY"
	notBuilt   = "DOES NOT COMPILE"
)

// verdict is what became of one patch, or of the tree without any.
type verdict struct {
	Patch   string    `json:"patch"`
	Verdict string    `json:"verdict"`
	By      []finding `json:"by,omitempty"`     // the checks that failed, first first
	Detail  string    `json:"detail,omitempty"` // what they said, or why there is no verdict
	Checks  int       `json:"checks"`           // run, the failing ones included
	TookMS  int64     `json:"took_ms"`
}

// finding is one failed check.
type finding struct {
	Check string `json:"check"`           // the promise
	Law   string `json:"law,omitempty"`   // the invariant
	Test  string `json:"test"`            // package and test
	Said  string `json:"said,omitempty"`  // its first words
	Rerun string `json:"rerun,omitempty"` // the command, in a patched tree
}

func (f finding) String() string {
	s := f.Check
	if f.Law != "" {
		s = f.Law + " " + s
	}
	return fmt.Sprintf("%s (%s)", s, f.Test)
}

func (v verdict) line() string {
	s := fmt.Sprintf("%-34s %s", v.Patch, v.Verdict)
	for i, f := range v.By {
		sep := " by "
		if i > 0 {
			sep = "\n" + strings.Repeat(" ", 35) + "and by "
		}
		s += sep + f.String()
	}
	return fmt.Sprintf("%s  [%d checks, %s]", s, v.Checks, (time.Duration(v.TookMS) * time.Millisecond).Round(100*time.Millisecond))
}

// report is a whole visit.
type report struct {
	Began     time.Time `json:"began"`
	TookMS    int64     `json:"took_ms"`
	Unchanged *verdict  `json:"unchanged,omitempty"`
	Patches   []verdict `json:"patches"`
	Caught    int       `json:"caught"`
}

func (r *report) sum() {
	r.TookMS = time.Since(r.Began).Milliseconds()
	for _, v := range r.Patches {
		if v.Verdict == caught {
			r.Caught++
		}
	}
}

// write gives the report out: what a person has not read yet, or all of it as JSON.
func (r *report) write(o options, stdout io.Writer) error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if o.file != "" {
		if err := os.WriteFile(o.file, append(data, '\n'), 0o644); err != nil {
			return err
		}
	}
	if o.format == "json" {
		_, err = fmt.Fprintf(stdout, "%s\n", data)
		return err
	}
	for _, v := range r.Patches {
		if v.Verdict != caught || len(r.Patches) == 1 {
			fmt.Fprintf(stdout, "\n%s %s\n%s\n", v.Patch, v.Verdict, v.Detail)
		}
	}
	fmt.Fprintf(stdout, "%d of %d caught in %s\n", r.Caught, len(r.Patches), (time.Duration(r.TookMS) * time.Millisecond).Round(time.Second))
	return nil
}
