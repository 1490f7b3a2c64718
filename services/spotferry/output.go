package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spotferry/spotferry/services/internal/console"
	"github.com/spotferry/spotferry/services/internal/terminal"
)

// format is the value of -o.
type format string

const (
	formatTable format = "table"
	formatWide  format = "wide"
	formatJSON  format = "json"
	formatYAML  format = "yaml"
	formatName  format = "name"
)

func formats() []string {
	return []string{string(formatTable), string(formatWide), string(formatJSON), string(formatYAML), string(formatName)}
}

func (f *format) String() string { return string(*f) }

// Type is what a help page calls the value.
func (f *format) Type() string { return "FORMAT" }

// Set takes one of formats.
func (f *format) Set(s string) error {
	if !slices.Contains(formats(), s) {
		return fmt.Errorf("give one of %s", strings.Join(formats(), ", "))
	}
	*f = format(s)
	return nil
}

// forProgram says whether another program reads the output.
func (f format) forProgram() bool { return f == formatJSON || f == formatYAML || f == formatName }

// view is an answer in every form that -o knows.
type view struct {
	doc   any      // for json and yaml: the items of a list, or one object
	list  bool     // which of the two
	names []string // for name
	page  func(p *page)
}

// show prints a view on the output.
func (e *environment) show(v view) error {
	switch e.format {
	case formatJSON, formatYAML:
		doc, err := document(v.doc, v.list)
		if err != nil {
			return err
		}
		if e.format == formatYAML {
			return terminal.YAML(e.term.Out, doc)
		}
		return terminal.JSON(e.term.Out, doc)
	case formatName:
		for _, n := range v.names {
			e.term.Print(terminal.Safe(n))
		}
		return nil
	}
	p := e.page()
	v.page(p)
	return p.flush()
}

// document is an answer as programs read it: one object that says its version.
func document(v any, list bool) (json.RawMessage, error) {
	if list {
		return json.Marshal(struct {
			SchemaVersion int `json:"schema_version"`
			Items         any `json:"items"`
		}{console.SchemaVersion, v})
	}
	b, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	head := fmt.Sprintf(`{"schema_version":%d`, console.SchemaVersion)
	if bytes.Equal(b, []byte("{}")) {
		return json.RawMessage(head + "}"), nil
	}
	return json.RawMessage(head + "," + string(b[1:])), nil
}

// stream prints one of many things that come one after another: an object on
// a line of its own, or a document of its own. It says false when the format is
// for people, or only wants names.
func (e *environment) stream(v any) (printed bool, err error) {
	doc, err := document(v, false)
	switch {
	case err != nil:
		return false, err
	case e.format == formatJSON:
		return true, terminal.JSONLine(e.term.Out, doc)
	case e.format == formatYAML:
		e.term.Print("---")
		return true, terminal.YAML(e.term.Out, doc)
	}
	return false, nil
}

// page is text for people, written out at once. Everything given to it is made safe.
type page struct {
	buf     bytes.Buffer
	to      io.Writer
	style   terminal.Style
	columns int
	zone    *time.Location
	wide    bool
	every   bool // row of a long table, not only the first
	began   bool
}

// page returns a page for the output.
func (e *environment) page() *page {
	return &page{to: e.term.Out, style: e.term.Style, columns: e.term.Columns, zone: e.zone(), wide: e.format == formatWide}
}

// aside returns a page that stands beside the output.
func (e *environment) aside() *page {
	p := e.page()
	p.to, p.style = e.term.Err, e.term.Notes
	return p
}

func (p *page) flush() error {
	_, err := p.buf.WriteTo(p.to)
	return err
}

// line writes a line of text.
func (p *page) line(format string, args ...any) {
	p.began = true
	p.buf.WriteString(terminal.Safe(fmt.Sprintf(format, args...)) + "\n")
}

// head writes a heading, apart from what stands above it.
func (p *page) head(format string, args ...any) {
	if p.began {
		p.buf.WriteByte('\n')
	}
	p.began = true
	p.buf.WriteString(p.style.Bold(terminal.Safe(fmt.Sprintf(format, args...))) + "\n")
}

// field writes a named value; an empty one is left out.
func (p *page) field(name, format string, args ...any) {
	if v := terminal.Safe(fmt.Sprintf(format, args...)); v != "" {
		p.began = true
		p.buf.WriteString("  " + p.style.Dim(fmt.Sprintf("%-11s", name)) + " " + v + "\n")
	}
}

func (p *page) table(t terminal.Table) {
	p.began = true
	_ = t.Write(&p.buf, p.style, p.columns) // a buffer takes everything
}
