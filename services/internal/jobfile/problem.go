package jobfile

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Severity says what a problem means for the job.
type Severity string

// The three severities.
const (
	Refused Severity = "refused" // the job cannot be submitted as it is
	Warning Severity = "warning" // it can, and something the file asks for will not happen
	Note    Severity = "note"    // it can, and this is what was understood where the file says nothing
)

// Problem is one thing to say about a job file.
type Problem struct {
	File     string   `json:"file"`
	Line     int      `json:"line,omitempty"` // from 1; 0: about no line of the file
	Col      int      `json:"col,omitempty"`  // in characters, from 1
	Field    string   `json:"field,omitempty"`
	Message  string   `json:"message"`
	Remedy   string   `json:"remedy,omitempty"`
	Severity Severity `json:"severity"`
	Source   string   `json:"source,omitempty"` // the line, safe to print: escaped, shortened, without credentials

	caret int // characters before the caret in Source
}

// String is the problem as people read it: file:line:col: message, the line
// with a caret below the place, and the remedy.
func (p Problem) String() string {
	var b strings.Builder
	b.WriteString(p.where())
	if p.Severity != Refused {
		b.WriteString(string(p.Severity) + ": ")
	}
	b.WriteString(p.Message)
	if p.Source != "" {
		fmt.Fprintf(&b, "\n  %s\n  %s^", p.Source, strings.Repeat(" ", p.caret))
	}
	if p.Remedy != "" {
		b.WriteString("\n  " + p.Remedy)
	}
	return b.String()
}

func (p Problem) where() string {
	file := printable(p.File)
	if p.Line == 0 {
		return file + ": "
	}
	return fmt.Sprintf("%s:%d:%d: ", file, p.Line, p.Col)
}

// Error is everything for which a job file is refused, in the order of the file.
type Error struct {
	Problems []Problem
	Warnings []Problem // what there is to say besides
}

// Error gives every problem, as Problem.String does.
func (e *Error) Error() string {
	var all []string
	for _, p := range e.Problems {
		all = append(all, p.String())
	}
	return strings.Join(all, "\n")
}

// inOrder sorts problems by where they stand; those at one place keep their order.
func inOrder(ps []Problem) {
	slices.SortStableFunc(ps, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col))
	})
}
