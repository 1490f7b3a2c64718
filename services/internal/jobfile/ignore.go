package jobfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"regexp"
	"strings"
)

// ignores is what the files .skyignore or .gitignore leave out, in gitignore's
// language: the last pattern that matches decides, ! takes back, a leading or
// inner slash ties a pattern to the file's own directory, a trailing one to
// directories, ** crosses directories. What is below an ignored directory
// cannot be taken back, because nobody looks there.
type ignores struct {
	nested bool // .gitignore in every directory, rather than one .skyignore
	rules  []ignoreRule
}

type ignoreRule struct {
	match   *regexp.Regexp // of the path below the workdir
	keep    bool
	dirOnly bool
}

const (
	maxIgnoreFile  = 64 << 10
	maxIgnoreRules = 10_000
)

// topRules reads .skyignore. When there is none, every directory may have a .gitignore.
func topRules(root *os.Root) (ignores, error) {
	rules, err := readRules(root, ".skyignore", ".")
	if errors.Is(err, fs.ErrNotExist) {
		return ignores{nested: true}, nil
	}
	return ignores{rules: rules}, err
}

// below adds the rules of the directory name.
func (g ignores) below(root *os.Root, name string) (ignores, error) {
	if !g.nested {
		return g, nil
	}
	more, err := readRules(root, path.Join(name, ".gitignore"), name)
	if errors.Is(err, fs.ErrNotExist) {
		return g, nil
	}
	if err != nil {
		return g, err
	}
	if len(g.rules)+len(more) > maxIgnoreRules {
		return g, fmt.Errorf("there are more than %d ignore patterns: write fewer, in a .skyignore", maxIgnoreRules)
	}
	g.rules = append(g.rules[:len(g.rules):len(g.rules)], more...)
	return g, nil
}

func (g ignores) match(name string, dir bool) bool {
	for i := len(g.rules) - 1; i >= 0; i-- {
		r := g.rules[i]
		if (dir || !r.dirOnly) && r.match.MatchString(name) {
			return !r.keep
		}
	}
	return false
}

func readRules(root *os.Root, file, dir string) ([]ignoreRule, error) {
	info, err := root.Lstat(file)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxIgnoreFile {
		return nil, fmt.Errorf("%q is no file of at most %d KiB: write the patterns into one", file, maxIgnoreFile>>10)
	}
	f, err := root.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxIgnoreFile))
	if err != nil {
		return nil, fmt.Errorf("%q: %w", file, err)
	}
	var out []ignoreRule
	for i, line := range strings.Split(string(text), "\n") {
		rule, ok, err := parseRule(strings.TrimSuffix(line, "\r"), dir)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: pattern %q: %w", file, i+1, line, err)
		}
		if ok {
			out = append(out, rule)
		}
	}
	return out, nil
}

// parseRule reads one line; ok is false for a comment or an empty line.
func parseRule(line, dir string) (rule ignoreRule, ok bool, err error) {
	line = trimUnescaped(line)
	if line == "" || line[0] == '#' {
		return rule, false, nil
	}
	line, rule.keep = strings.CutPrefix(line, "!")
	line, rule.dirOnly = strings.CutSuffix(line, "/")
	tied := strings.Contains(line, "/")
	line = strings.TrimPrefix(line, "/")
	if line == "" {
		return rule, false, nil
	}
	prefix := ""
	if dir != "." {
		prefix = regexp.QuoteMeta(dir) + "/"
	}
	if !tied {
		prefix += "(?:.*/)?"
	}
	rule.match, err = regexp.Compile("(?s)^" + prefix + globRegexp(line) + "$")
	return rule, err == nil, err
}

// trimUnescaped removes spaces at the end unless a backslash keeps them.
func trimUnescaped(s string) string {
	t := strings.TrimRight(s, " ")
	if len(t) < len(s) && strings.HasSuffix(t, `\`) {
		t += " "
	}
	return t
}

func globRegexp(glob string) string {
	var b strings.Builder
	for i := 0; i < len(glob); {
		rest := glob[i:]
		atStart := i == 0 || glob[i-1] == '/'
		switch {
		case atStart && strings.HasPrefix(rest, "**/"):
			b.WriteString("(?:.*/)?")
			i += 3
		case atStart && rest == "**":
			b.WriteString(".*")
			i += 2
		case rest[0] == '*':
			b.WriteString("[^/]*")
			i += len(rest) - len(strings.TrimLeft(rest, "*"))
		case rest[0] == '?':
			b.WriteString("[^/]")
			i++
		case rest[0] == '[':
			class, n := globClass(rest)
			b.WriteString(class)
			i += n
		case rest[0] == '\\' && len(rest) > 1:
			b.WriteString(regexp.QuoteMeta(rest[1:2]))
			i += 2
		default:
			b.WriteString(regexp.QuoteMeta(rest[:1]))
			i++
		}
	}
	return b.String()
}

// globClass turns [a-z] or [!a-z] into a regular expression's, and says how much
// of s it was. A bracket that is never closed stands for itself.
func globClass(s string) (class string, n int) {
	i := 1
	if i < len(s) && (s[i] == '!' || s[i] == '^') {
		i++
	}
	end := strings.IndexByte(s[min(i+1, len(s)):], ']')
	if end < 0 {
		return `\[`, 1
	}
	end += i + 1
	set := strings.NewReplacer(`[`, `\[`, `]`, `\]`, `^`, `\^`, `&`, `\&`).Replace(s[i:end])
	not := ""
	if i == 2 {
		not = "^/"
	}
	return "[" + not + set + "]", end + 1
}
