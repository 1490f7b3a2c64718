package jobfile

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"unicode"
)

// aliasBomb says 9^levels values in a few hundred bytes.
func aliasBomb(levels int) string {
	var b strings.Builder
	b.WriteString("x0: &x0 [lol]\n")
	for i := 1; i <= levels; i++ {
		fmt.Fprintf(&b, "x%d: &x%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*x%d,", i-1), 9), ","))
	}
	return b.String()
}

// mergeBomb does it with << in a place that is read.
func mergeBomb(levels int) string {
	var b strings.Builder
	b.WriteString(minimal + "setup: x\nenvs:\n  <<: &m0 {A: x}\nresources:\n  labels:\n")
	b.WriteString("    <<: [{<<: &m1 {a: b}}, ")
	for i := 2; i <= levels; i++ {
		fmt.Fprintf(&b, "{<<: &m%d {<<: [%s]}}, ", i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*m%d,", i-1), 9), ","))
	}
	b.WriteString("{c: d}]\n")
	return b.String()
}

func TestAbsurdFilesAreRefusedInWords(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, src, message string }{
		{"nothing", "", "empty"},
		{"only comments", "# hello\n\n---\n", "empty"},
		{"only a byte order mark", "\uFEFF", "empty"},
		{"a list", "- run: x\n", "a list"},
		{"a sentence", "please train my model\n", "single value"},
		{"two documents", minimal + "---\n" + minimal, "second document"},
		{"a second document that is broken", minimal + "---\n\t@\n", "not YAML"},
		{"an alias bomb in keys nobody reads", aliasBomb(9) + minimal, `no key "x0"`},
		{"a merge bomb", mergeBomb(12), "expand to more than"},
		{"a merge of itself", minimal + "resources: {labels: &a {<<: *a}}\n", "in a circle"},
		{"an anchor nobody set", "run: *nothing\n", "unknown anchor"},
		{"10000 brackets", minimal + "resources: " + strings.Repeat("[", 10_001), "max depth"},
		{"10000 indentations", strings.Repeat("- ", 10_001), "max depth"},
		{"9000 brackets that close", minimal + "resources: " + strings.Repeat("[", 9000) + strings.Repeat("]", 9000), "resources is a list"},
		{"a NUL", "run: a\x00b\n", "NUL"},
		{"an escape sequence", "run: \x1b[2J\n", "control character U+001B"},
		{"UTF-16", "\xff\xfer\x00u\x00n\x00", "UTF-16"},
		{"bytes that are no text", "run: \xc3\x28\n", "is not UTF-8"},
		{"tabs as indentation", "policy:\n\tbudget: 1\n", "not YAML"},
		{"text that turns around in a name", minimal + "name: \"a\\u202eb\"\n", "invisible characters"},
		{"a zero-width name", minimal + "name: \"a\u200bb\"\n", "invisible characters"},
		{"a name with a line break", minimal + "name: \"a\\nb\"\n", "invisible characters"},
		{"a name of spaces", minimal + "name: '   '\n", "only spaces"},
		{"a name of 10000 characters", minimal + "name: " + strings.Repeat("n", 10_000) + "\n", "more than 128"},
		{"a command that fills the bus", "run: '" + strings.Repeat("<", 100<<10) + "'\npolicy: {budget: 1}\n", "at most 524288 fit"},
		{"a file of merge conflicts", "<<<<<<< HEAD\nrun: a\n=======\nrun: b\n>>>>>>> x\n", "not YAML"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, err := read(tc.src)
			refusals(t, err)
			if !strings.Contains(err.Error(), tc.message) {
				t.Errorf("got %.300v\nwant %q", err, tc.message)
			}
			if len(err.Error()) > 20_000 {
				t.Errorf("it takes %d bytes to say so", len(err.Error()))
			}
		})
	}
}

func TestAHundredMebibytesAreRefusedUnread(t *testing.T) {
	t.Parallel()
	_, err := Read("job.yaml", make([]byte, 100<<20), Options{Now: now})
	if ps := refusals(t, err); len(ps) != 1 || !strings.Contains(ps[0].Message, "larger than 128 KiB") {
		t.Errorf("got %v", err)
	}
}

func TestStrangeFilesThatAreFine(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, src string }{
		{"a byte order mark", "\uFEFF" + minimal},
		{"lines that end as on Windows", strings.ReplaceAll(minimal, "\n", "\r\n")},
		{"JSON", `{"run": "train", "policy": {"budget": "120"}}`},
		{"one document with its marks", "---\n" + minimal + "...\n"},
		{"a name of dots", minimal + "name: ..\n"},
		{"a name that is a wildcard", minimal + "name: '*'\n"},
		{"a name that is every subject", minimal + "name: '>'\n"},
		{"a name with dots, slashes and spaces", minimal + "name: a/b.c d\n"},
		{"a name in another script", minimal + "name: 微調整 ajusté\n"},
		{"a command of many lines", "run: |\n  a\n  b\npolicy: {budget: 1}\n"},
		{"a command with shell characters", "run: a; b && c `d` $(e) > f\npolicy: {budget: 1}\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			mustRead(t, tc.src)
		})
	}
}

// hostile are the dearest files that fit, by what they make a parser build.
func hostile() map[string]string {
	full := func(unit string) string { return strings.Repeat(unit, maxFile/len(unit)) }
	return map[string]string{
		"scalars in a list":  "x: [" + full("a,")[:maxFile-8] + "]",
		"maps in a list":     "x: [" + full("{a},")[:maxFile-8] + "]",
		"lines of dashes":    full("- a\n"),
		"keys":               full("a:\n"),
		"nesting":            full(strings.Repeat("- ", 1000) + "\n"),
		"brackets":           full("- " + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + "\n"),
		"comments":           full("#\n"),
		"comments and keys":  full("a: 1 #\n"),
		"anchors":            full("- &a a\n"),
		"aliases":            "- &a a\n" + full("- *a\n")[:maxFile-16],
		"documents":          full("---\n"),
		"one long key":       full("a") + ": 1",
		"open quotes":        "run: \"" + full("\\n")[:maxFile-16],
		"question marks":     full("? "),
		"question lines":     full("? a\n"),
		"tags":               full("- !a a\n"),
		"empty lines":        full("\n"),
		"blank block":        "run: |\n" + full(" \n")[:maxFile-16],
		"flow keys":          "{" + full("a: b, ")[:maxFile-8] + "}",
		"percent directives": full("%A\n"),
	}
}

func TestHostileFilesCostLittle(t *testing.T) {
	// Not parallel: it counts what is allocated meanwhile.
	for name, src := range hostile() {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := read(src)
			runtime.ReadMemStats(&after)
			refusals(t, err)
			mb := (after.TotalAlloc - before.TotalAlloc) >> 20
			t.Logf("%d KiB in, %d MiB allocated in all", len(src)>>10, mb)
			if mb > 64 {
				t.Errorf("allocates %d MiB", mb)
			}
		})
	}
}

func FuzzRead(f *testing.F) {
	for _, src := range hostile() {
		f.Add([]byte(src[:min(len(src), 2000)]))
	}
	for _, src := range []string{minimal, aliasBomb(5), mergeBomb(4), "\uFEFF" + minimal,
		minimal + "resources: {any_of: [{infra: aws}], accelerators: [V100:1], memory: 4+}\nenvs: {A: 1:30}\nworkdir: .\n",
		"run: &a x\nsetup: *a\npolicy: {budget: $1, deadline: +3h, work: {hours_on: {'*': 1h}}, checkpoint: {interval: 5m}}\n"} {
		f.Add([]byte(src))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		j, err := Read("f.yaml", src, Options{Now: now, Env: map[string]string{"X": "1"}})
		said := ""
		if err != nil {
			refusals(t, err)
			said = err.Error()
		} else if j.Spec.Run == "" && !strings.Contains(string(src), "run") || j.Spec.Policy.Budget <= 0 {
			t.Errorf("accepted without run or budget: %+v", j.Spec)
		}
		for _, w := range j.Warnings {
			said += w.String()
		}
		for _, c := range said {
			if c != '\n' && !unicode.IsPrint(c) {
				t.Errorf("message has %U: %q", c, said)
			}
		}
	})
}
