package jobfile

import (
	"regexp"
	"strings"
	"unicode"
)

// A job's record is kept for ever, in clear, so a credential must not get into
// it, nor into a message about it.

var (
	secretName  = regexp.MustCompile(`(?i)(secret|passw(or)?d|passphrase|credential|api_?key|access_?key|private_?key|auth_?token|access_?token|(^|_)token$)`)
	secretValue = regexp.MustCompile(`AKIA[0-9A-Z]{16}|\b(hf|ghp|gho|ghs|glpat|github_pat|xox[abp]|sk|npm|dop_v1)[_-][A-Za-z0-9_-]{16,}|-----BEGIN [A-Z ]*PRIVATE KEY-----|https?://[^/\s@]+@|\beyJ[A-Za-z0-9_-]{10,}\.eyJ`)
	// hiddenField is a name that sounds like a credential's, or envs, and what is assigned to it.
	hiddenField = regexp.MustCompile(`(?i)((\benvs|[a-z0-9_-]*(secret|token|passw(or)?d|passphrase|credential|api_?key|access_?key|private_?key)[a-z0-9_-]*)["']?\s*[:=]\s*)\S.*$`)
)

// isSecret says whether an environment variable holds a credential: by the form
// of its value, or by its name together with a value that nobody would
// remember. PAD_TOKEN: <pad> and MAX_TOKENS: 512 are not.
func isSecret(name, value string) bool {
	if secretValue.MatchString(value) {
		return true
	}
	return secretName.MatchString(name) && looksRandom(value)
}

// soundsSecret says whether a name is one that credentials have.
func soundsSecret(name string) bool { return secretName.MatchString(name) }

// looksRandom says whether nobody would type a value by heart: letters and
// digits mixed, or long and of mixed case. A path is not random.
func looksRandom(s string) bool {
	if len(s) < 12 || s[0] == '/' || strings.ContainsAny(s, " \t\n$<>") {
		return false
	}
	var digits, upper, lower int
	for _, c := range s {
		switch {
		case unicode.IsDigit(c):
			digits++
		case unicode.IsUpper(c):
			upper++
		case unicode.IsLower(c):
			lower++
		}
	}
	return digits >= 2 && upper+lower >= 2 || len(s) >= 20 && upper >= 3 && lower >= 3
}

// masked returns line i (from 0) without what is, or may be, a credential. No
// value of envs is shown: messages about one do without it. A line can be the
// whole file and have every problem in it, so it is worked out once.
func (r *reader) masked(i int) string {
	line, done := r.shown[i]
	if !done {
		line = r.mask(i)
		r.shown[i] = line
	}
	return line
}

func (r *reader) mask(i int) string {
	line := r.lines[i]
	if r.belowHidden(i) {
		key, _, keyed := strings.Cut(line, ":")
		if !keyed {
			return "****"
		}
		line = key + ": ****"
	}
	if m := hiddenField.FindStringSubmatchIndex(line); m != nil {
		line = line[:m[3]] + "****"
	}
	if m := secretValue.FindStringIndex(line); m != nil {
		line = line[:m[0]] + "****"
	}
	return line
}

// belowHidden says whether line i stands in the block of a key whose values are not shown.
func (r *reader) belowHidden(i int) bool {
	depth := indent(r.lines[i])
	for j := i - 1; j >= 0 && depth > 0; j-- {
		line := r.lines[j]
		if strings.TrimSpace(line) == "" || indent(line) >= depth {
			continue
		}
		depth = indent(line)
		key, _, _ := strings.Cut(strings.TrimLeft(line, " \t-"), ":")
		if key == "envs" || soundsSecret(key) {
			return true
		}
	}
	return false
}

func indent(line string) int { return len(line) - len(strings.TrimLeft(line, " \t-")) }
