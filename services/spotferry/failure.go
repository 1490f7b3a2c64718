package main

import (
	"fmt"

	"github.com/spotferry/spotferry/services/internal/console"
	"github.com/spotferry/spotferry/services/internal/jobfile"
	"github.com/spotferry/spotferry/services/internal/terminal"
)

// failure is an error with its exit code and how to mend it. One that says
// nothing only sets the exit code: everything has been said.
type failure struct {
	exit     exit
	What     string            `json:"message"`
	Remedy   string            `json:"remedy,omitempty"`
	Problems []jobfile.Problem `json:"problems,omitempty"` // of a job file
}

func (f *failure) Error() string { return f.What }

// report says a failure: as text, or for another program when that was asked for.
func (e *environment) report(f *failure) {
	if e.format == formatJSON {
		_ = terminal.JSONLine(e.term.Err, struct {
			SchemaVersion int `json:"schema_version"`
			Error         any `json:"error"`
		}{console.SchemaVersion, struct {
			Code string `json:"code"`
			Exit int    `json:"exit_code"`
			*failure
		}{f.exit.name(), int(f.exit), f}})
		return
	}
	for _, p := range f.Problems {
		e.term.Note("%s", p)
	}
	what := f.What
	if what == "" {
		what = fmt.Sprintf("%s in the job file: nothing was submitted", count(len(f.Problems), "problem"))
	}
	e.term.Mark(terminal.Style.Bad, "spotferry:", "%s", what)
	if f.Remedy != "" {
		e.term.Note("  %s", f.Remedy)
	}
}
