package jobfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// document returns the file's one mapping, or nil after saying why there is none.
func (r *reader) document() *yaml.Node {
	if !r.readable() {
		return nil
	}
	dec := yaml.NewDecoder(bytes.NewReader(r.src))
	doc, err := next(dec)
	if errors.Is(err, io.EOF) || err == nil && isNull(doc.Content[0]) {
		r.refuse(place{}, "", "write at least run and policy.budget", "the file is empty")
		return nil
	}
	if err != nil {
		r.syntax(err)
		return nil
	}
	if second, err := next(dec); err == nil {
		r.refuse(placeOf(second), "", "put each job into a file of its own", "a second document begins here; a file holds one job")
		return nil
	} else if !errors.Is(err, io.EOF) {
		r.syntax(err)
		return nil
	}
	root := r.target(doc.Content[0])
	if root.Kind != yaml.MappingNode {
		r.refuse(placeOf(root), "", "begin with a key such as run:", "the file holds %s; a job file holds keys and values", kindOf(root))
		return nil
	}
	return root
}

// next parses one document. A parser fed by strangers is the one place where a
// panic is an answer about the input.
func next(dec *yaml.Decoder) (doc *yaml.Node, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("yaml: the parser gave up: %v", p)
		}
	}()
	doc = new(yaml.Node)
	if err := dec.Decode(doc); err != nil {
		return nil, err
	}
	if doc.Kind != yaml.DocumentNode || len(doc.Content) == 0 {
		return nil, io.EOF
	}
	return doc, nil
}

// readable refuses what is not text, before a parser sees it, and splits the rest into lines.
func (r *reader) readable() bool {
	if len(r.src) > maxFile {
		r.src = nil
		r.refuse(place{}, "", "put long commands and data into the workdir", "the file is larger than %d KiB", maxFile>>10)
		return false
	}
	if bytes.HasPrefix(r.src, []byte{0xFE, 0xFF}) || bytes.HasPrefix(r.src, []byte{0xFF, 0xFE}) {
		r.refuse(place{}, "", "save it as UTF-8", "the file is UTF-16")
		return false
	}
	r.src = bytes.TrimPrefix(r.src, []byte("\uFEFF"))
	text := string(r.src)
	r.lines = strings.Split(text, "\n")
	for i, line := range r.lines {
		r.lines[i] = strings.TrimSuffix(line, "\r")
	}
	col, line := 1, 1
	for i, c := range text {
		switch {
		case c == utf8.RuneError && strings.HasPrefix(text[i:], "\uFFFD"):
		case c == utf8.RuneError:
			r.refuse(place{line, col}, "", "save it as UTF-8", "byte %#02x here is not UTF-8", text[i])
			return false
		case c == 0:
			r.refuse(place{line, col}, "", "remove it", "there is a NUL here")
			return false
		case c < ' ' && c != '\n' && c != '\r' && c != '\t', c == 0x7F:
			r.refuse(place{line, col}, "", "remove it, or write it as an escape in double quotes", "control character %U here", c)
			return false
		}
		col++
		if c == '\n' {
			line, col = line+1, 1
		}
	}
	return true
}

var yamlLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?(.*)$`)

// syntax turns the parser's complaint, which knows its line at best, into a problem.
func (r *reader) syntax(err error) {
	m := yamlLine.FindStringSubmatch(err.Error())
	if m == nil {
		r.refuse(place{}, "", "", "not YAML: %s", printable(err.Error()))
		return
	}
	at := place{}
	if n, err := strconv.Atoi(m[1]); err == nil && n >= 1 {
		n = min(n, len(r.lines))
		at = place{n, 1 + utf8.RuneCountInString(r.lines[n-1]) - utf8.RuneCountInString(strings.TrimLeft(r.lines[n-1], " \t"))}
	}
	remedy := "look at the indentation, the colons and the quotes here and on the line above"
	if strings.Contains(m[2], "tab") || strings.Contains(m[2], "cannot start any token") {
		remedy = "indent with spaces, not tabs, and quote values that begin with @, ` or %"
	}
	r.refuse(at, "", remedy, "not YAML: %s", printable(m[2]))
}
