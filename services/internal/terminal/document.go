package terminal

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode/utf16"

	"go.yaml.in/yaml/v3"
)

// JSON writes v as indented JSON. Characters that would act on a screen stand
// as escapes, which changes no value.
func JSON(w io.Writer, v any) error {
	b, err := encode(v)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	if err := json.Indent(&out, b, "", "  "); err != nil {
		return err
	}
	out.WriteByte('\n')
	_, err = io.WriteString(w, escape(out.String(), surrogates))
	return err
}

// JSONLine writes v as JSON on one line.
func JSONLine(w io.Writer, v any) error {
	b, err := encode(v)
	if err != nil {
		return err
	}
	_, err = io.WriteString(w, escape(string(b), surrogates)+"\n")
	return err
}

func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// acts says whether r, which the encoders write as it is, would act on a screen.
func acts(r rune) bool { return r != '\n' && Hidden(r) }

// escape writes what acts, which in JSON and in our YAML stands inside double
// quotes only, as an escape. beyond writes those above U+FFFF.
func escape(s string, beyond func(r rune) string) string {
	if !strings.ContainsFunc(s, acts) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case !acts(r):
			b.WriteRune(r)
		case r > 0xffff:
			b.WriteString(beyond(r))
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

func surrogates(r rune) string {
	hi, lo := utf16.EncodeRune(r)
	return fmt.Sprintf(`\u%04x\u%04x`, hi, lo)
}

func long(r rune) string { return fmt.Sprintf(`\U%08x`, r) }

// YAML writes v as the YAML of its JSON form: the same names, the same order,
// the same values.
func YAML(w io.Writer, v any) error {
	b, err := encode(v)
	if err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	n, err := node(d)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	e := yaml.NewEncoder(&out)
	e.SetIndent(2)
	if err := e.Encode(n); err != nil {
		return err
	}
	_, err = io.WriteString(w, escape(out.String(), long))
	return err
}

// node reads the next JSON value.
func node(d *json.Decoder) (*yaml.Node, error) {
	t, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch t := t.(type) {
	case json.Delim:
		kind := yaml.MappingNode
		if t == '[' {
			kind = yaml.SequenceNode
		}
		return below(d, &yaml.Node{Kind: kind})
	case string:
		return text(t), nil
	case json.Number:
		tag := "!!int"
		if strings.ContainsAny(t.String(), ".eE") {
			tag = "!!float"
		}
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: tag, Value: t.String()}, nil
	case bool:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: fmt.Sprint(t)}, nil
	}
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Value: "null"}, nil
}

func below(d *json.Decoder, n *yaml.Node) (*yaml.Node, error) {
	for d.More() {
		c, err := node(d)
		if err != nil {
			return nil, err
		}
		n.Content = append(n.Content, c)
	}
	if len(n.Content) == 0 {
		n.Style = yaml.FlowStyle
	}
	_, err := d.Token() // the closing bracket
	return n, err
}

// text is a string. One with characters that act on a screen is quoted by us,
// as the encoder takes some of them for printable.
func text(s string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s}
	if strings.ContainsFunc(s, acts) {
		n.Style = yaml.DoubleQuotedStyle
	}
	return n
}
