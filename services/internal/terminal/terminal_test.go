package terminal

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
	"pgregory.net/rapid"
)

func TestSafeKeepsTextOnly(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, in, want string }{
		{"plain text is kept", "loss 2.31", "loss 2.31"},
		{"letters of every script are kept", "Zürich 学習 مرحبا हिन्दी", "Zürich 学習 مرحبا हिन्दी"},
		{"an emoji joined of two is kept", "\U0001F469\u200D\U0001F52C", "\U0001F469\u200D\U0001F52C"},
		{"colours go", "\x1b[1;31mred\x1b[0m", "red"},
		{"a clear screen goes", "a\x1b[2J\x1b[Hb", "ab"},
		{"a title ended by BEL goes", "a\x1b]0;owned\x07b", "ab"},
		{"a link ended by ST goes, its text stays", "\x1b]8;;http://x\x1b\\here\x1b]8;;\x1b\\", "here"},
		{"a device control string goes", "a\x1bPq#0\x1b\\b", "ab"},
		{"the one-character forms go too", "a\u009b31mb\u009d0;t\u009cc", "abc"},
		{"raw bytes of those are no UTF-8", "a\x9b31mb", "a\ufffd31mb"},
		{"a sequence without an end swallows nothing", "a\x1b]0;rest of the line", "a0;rest of the line"},
		{"a colour without an end swallows nothing", "a\x1b[31\u00e9b", "a31\u00e9b"},
		{"a lone escape at the end goes", "a\x1b", "a"},
		{"a selection of characters goes", "a\x1b(0b", "ab"},
		{"a reset goes", "a\x1bcb", "ab"},
		{"a direction override goes", "a\u202egnp.exe", "agnp.exe"},
		{"isolates and marks go", "\u2066a\u2069\u200e\u200f\u061c", "a"},
		{"invisible characters go", "pay\u200bpal\ufeff\u00ad\U000E0041", "paypal"},
		{"line breaks become spaces", "a\r\nb\u2028c\td", "a  b c d"},
		{"backspaces go", "safe\b\b\b\bevil", "safeevil"},
		{"a NUL goes", "a\x00b", "ab"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if got := Safe(tc.in); got != tc.want {
				t.Errorf("Safe(%q) = %q, want %q", tc.in, got, tc.want)
			}
		})
	}
}

func TestSafeLineShowsWhatAProgressBarEndedWith(t *testing.T) {
	t.Parallel()
	if got := SafeLine("10%\r55%\r\x1b[K100%\tdone\r"); got != "100%\tdone" {
		t.Errorf("SafeLine = %q", got)
	}
	if got := SafeLines("a\nb\x1b[2Jc"); got != "a\nbc" {
		t.Errorf("SafeLines = %q", got)
	}
}

func TestNothingThatActsPassesSafe(t *testing.T) {
	t.Parallel()
	pieces := []string{"\x1b", "[", "]", "31m", "\x07", "\x1b\\", "P", "\u009b", "\u202e", "a", " ", "\n", "\r", "0;", "\xff", "\u2066", "(", "é", "学"}
	rapid.Check(t, func(t *rapid.T) {
		s := strings.Join(rapid.SliceOf(rapid.OneOf(rapid.SampledFrom(pieces), rapid.String())).Draw(t, "s"), "")
		for _, f := range []func(string) string{Safe, SafeLine, SafeLines} {
			got := f(s)
			if !utf8.ValidString(got) {
				t.Fatalf("%q is not UTF-8", got)
			}
			if i := strings.IndexFunc(got, func(r rune) bool { return Hidden(r) && r != '\n' && r != '\t' }); i >= 0 {
				t.Fatalf("%q still has %q", got, got[i:])
			}
			if f(got) != got {
				t.Fatalf("%q changes again", got)
			}
		}
	})
}

func TestTable(t *testing.T) {
	t.Parallel()
	tab := Table{Columns: Columns("JOB", ">SPENT", "WAIT", "DETAIL"), Indent: 2}
	tab.Row("学習", "$1.20", "", "no \x1b[31mcapacity")
	tab.Row("llama-7b", "$10.00", "", "")
	tab.Drop("WAIT")
	var out bytes.Buffer
	if err := tab.Write(&out, Style{}, 0); err != nil {
		t.Fatal(err)
	}
	want := "" +
		"  JOB        SPENT  DETAIL\n" +
		"  学習       $1.20  no capacity\n" +
		"  llama-7b  $10.00\n"
	if out.String() != want {
		t.Errorf("table is\n%swant\n%s", out.String(), want)
	}
}

func TestANarrowScreenCutsTheLastColumn(t *testing.T) {
	t.Parallel()
	tab := Table{Columns: Columns("JOB", "DETAIL")}
	tab.Row("a", "a very long story about capacity")
	var out bytes.Buffer
	if err := tab.Write(&out, Style{}, 20); err != nil {
		t.Fatal(err)
	}
	if want := "JOB  DETAIL\na    a very long st…\n"; out.String() != want {
		t.Errorf("table is\n%swant\n%s", out.String(), want)
	}
}

func TestProgressIsRedrawnOnATerminalOnly(t *testing.T) {
	t.Parallel()
	now := time.Unix(0, 0)
	var out, err bytes.Buffer
	shown := &Terminal{Out: &out, Err: &err, ErrTTY: true, Now: func() time.Time { return now }}
	shown.Progress(1, 4, "one")
	shown.Print("a line")
	shown.Progress(2, 4, "two")
	shown.Done()
	if out.String() != "a line\n" || strings.Count(err.String(), "\r\x1b[K") != 3 || !strings.Contains(err.String(), " 50% two") {
		t.Errorf("on a terminal: %q and %q", out.String(), err.String())
	}

	err.Reset()
	piped := &Terminal{Out: &out, Err: &err, Now: func() time.Time { return now }}
	for range 25 { // 25 seconds
		piped.Progress(3, 4, "three")
		now = now.Add(time.Second)
	}
	if got := err.String(); got != strings.Repeat(" 75% three\n", 3) {
		t.Errorf("elsewhere: %q, want a line every ten seconds", got)
	}
}

func TestSpanIsNeverInvisible(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		total, width := rapid.Int64Range(1, 1e9).Draw(t, "total"), rapid.IntRange(1, 60).Draw(t, "width")
		from := rapid.Int64Range(-5, 2e9).Draw(t, "from")
		to := rapid.Int64Range(-5, 2e9).Draw(t, "to")
		s := Span(from, to, total, width)
		if len(s) > width || !strings.Contains(s, "=") {
			t.Fatalf("Span(%d, %d, %d, %d) = %q", from, to, total, width, s)
		}
	})
}

func TestConfirm(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, in string
		want     bool
		err      error
	}{
		{"y is yes", "y\n", true, nil},
		{"YES is yes, with no line break after it", "YES", true, nil},
		{"an empty line is no", "\n", false, nil},
		{"what is not understood is asked again", "perhaps\ny\n", true, nil},
		{"but not for ever", "a\nb\nc\ny\n", false, nil},
		{"no input is no answer", "", false, ErrNoAnswer},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			term := &Terminal{In: strings.NewReader(tc.in), Err: io.Discard}
			got, err := term.Confirm(t.Context(), "buy?")
			if got != tc.want || !errors.Is(err, tc.err) {
				t.Errorf("Confirm = %v, %v; want %v, %v", got, err, tc.want, tc.err)
			}
		})
	}
}

func TestConfirmEndsWithItsContext(t *testing.T) {
	t.Parallel()
	r, w := io.Pipe()
	defer w.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := (&Terminal{In: r, Err: io.Discard}).Confirm(ctx, "buy?"); !errors.Is(err, context.Canceled) {
		t.Errorf("Confirm = %v", err)
	}
}

// Names in documents are as hostile as anywhere, and must come back unchanged.
func TestDocumentsHideNothingAndChangeNothing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{
			"a\x1b[2J", "\u202egnp", "\u009b31m", "12.345678", "007", "yes", "null", "2026-01-01", "a: b", "- a", "\U000E0041x", "line\nline\u2028", "\x7f", "\ttab", "#no", "'q'", `"q"`, "",
		})).Draw(t, "s")
		in := map[string]any{"name": s, "n": 9007199254740993, "list": []any{}, "map": map[string]any{s: true}, "rate": 0.25, "none": nil}
		var asJSON, asLine, asYAML bytes.Buffer
		if err := errors.Join(JSON(&asJSON, in), JSONLine(&asLine, in), YAML(&asYAML, in)); err != nil {
			t.Fatal(err)
		}
		for _, out := range []string{asJSON.String(), asLine.String(), asYAML.String()} {
			if i := strings.IndexFunc(out, acts); i >= 0 {
				t.Fatalf("%q acts at %d", out, i)
			}
		}
		var fromJSON, fromYAML struct {
			Name string          `json:"name" yaml:"name"`
			N    int64           `json:"n" yaml:"n"`
			Map  map[string]bool `json:"map" yaml:"map"`
		}
		if err := errors.Join(json.Unmarshal(asJSON.Bytes(), &fromJSON), yaml.Unmarshal(asYAML.Bytes(), &fromYAML)); err != nil {
			t.Fatalf("%v\n%s", err, asYAML.String())
		}
		if fromJSON.Name != s || !reflect.DeepEqual(fromJSON, fromYAML) || fromYAML.N != 9007199254740993 {
			t.Fatalf("JSON gave %+v, YAML %+v, of %q\n%s", fromJSON, fromYAML, s, asYAML.String())
		}
	})
}

func TestYAMLKeepsTheOrderAndTheTypes(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	err := YAML(&out, struct {
		Z    string   `json:"z"`
		A    int      `json:"a"`
		List []string `json:"list"`
		None []int    `json:"none"`
		Cost string   `json:"cost"`
	}{"x", 1, []string{"p", "1.10"}, []int{}, "12.500000"})
	want := "z: x\na: 1\nlist:\n  - p\n  - \"1.10\"\nnone: []\ncost: \"12.500000\"\n"
	if err != nil || out.String() != want {
		t.Errorf("YAML = %v\n%swant\n%s", err, out.String(), want)
	}
}

func TestColourOnlyWhereItIsWanted(t *testing.T) {
	t.Parallel()
	if got := Coloured().Bad("no"); got != "\x1b[31mno\x1b[0m" {
		t.Errorf("coloured: %q", got)
	}
	term := Open(strings.NewReader(""), io.Discard, io.Discard, func(string) string { return "" }, time.Now)
	if got := term.Style.Bad("no"); got != "no" || term.OutTTY {
		t.Errorf("into a pipe: %q", got)
	}
}
