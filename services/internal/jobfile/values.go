package jobfile

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/spotferry/spotferry/events"
)

// The kinds of single values. Each returns or stores a value only when it is good.

// script reads commands: text with line breaks, kept as written.
func script(into func(*events.JobSpec) *string) func(*reader, string, *yaml.Node) {
	return func(r *reader, path string, n *yaml.Node) {
		if s, ok := r.commands(path, n); ok {
			*into(&r.job.Spec) = s
		}
	}
}

func (r *reader) commands(path string, n *yaml.Node) (string, bool) {
	s, ok := r.text(path, n)
	if !ok {
		return "", false
	}
	if strings.ContainsRune(s, 0) {
		r.refuse(placeOf(n), path, "remove it", "%s has a NUL, which no command can", path)
		return "", false
	}
	if strings.ContainsFunc(s, turnsText) {
		r.warn(placeOf(n), path, "remove them, or read what runs with care", "%s has invisible characters that change the order in which text is shown", path)
	}
	return s, true
}

// whole reads a whole number, in digits only: no 1_000, 0x10, 1e3 or 1:30.
func whole[T int | int64](least, most T, into func(*events.JobSpec) *T) func(*reader, string, *yaml.Node) {
	return func(r *reader, path string, n *yaml.Node) {
		if v, ok := r.whole(path, n, int64(least), int64(most)); ok {
			*into(&r.job.Spec) = T(v)
		}
	}
}

func (r *reader) whole(path string, n *yaml.Node, least, most int64) (int64, bool) {
	s, ok := r.text(path, n)
	if !ok {
		return 0, false
	}
	v, err := strconv.ParseInt(s, 10, 64)
	if err != nil || v < least || v > most || !isDigits(s) {
		r.refuse(placeOf(n), path, fmt.Sprintf("write a whole number from %d to %d, in digits only", least, most), "%s is %s", path, quoted(s))
		return 0, false
	}
	return v, true
}

func isDigits(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(c rune) bool { return c < '0' || c > '9' })
}

// choice reads one of a few words.
func choice(into func(*events.JobSpec) *string, options ...string) func(*reader, string, *yaml.Node) {
	return func(r *reader, path string, n *yaml.Node) {
		if s, ok := r.choice(path, n, options...); ok {
			*into(&r.job.Spec) = s
		}
	}
}

func (r *reader) choice(path string, n *yaml.Node, options ...string) (string, bool) {
	s, ok := r.text(path, n)
	if !ok {
		return "", false
	}
	if !slices.Contains(options, s) {
		r.refuse(placeOf(n), path, "choose one of "+strings.Join(options, ", "), "%s is %s", path, quoted(s))
		return "", false
	}
	return s, true
}

// yesNo reads a truth value, YAML 1.1's words included: SkyPilot's reader takes them.
func (r *reader) yesNo(path string, n *yaml.Node) (value, ok bool) {
	s, ok := r.text(path, n)
	if !ok {
		return false, false
	}
	switch strings.ToLower(s) {
	case "true", "yes", "on":
		return true, true
	case "false", "no", "off":
		return false, true
	}
	r.refuse(placeOf(n), path, "write true or false", "%s is %s", path, quoted(s))
	return false, false
}

// seconds reads a span of time into whole seconds.
func seconds(least, most time.Duration, into func(*events.JobSpec) *int64) func(*reader, string, *yaml.Node) {
	return func(r *reader, path string, n *yaml.Node) {
		if d, ok := r.span(path, n, least, most); ok {
			*into(&r.job.Spec) = int64(d / time.Second)
		}
	}
}

// span reads a time such as 90s, 6.5h or 1d12h, in whole seconds.
func (r *reader) span(path string, n *yaml.Node, least, most time.Duration) (time.Duration, bool) {
	s, ok := r.text(path, n)
	if !ok {
		return 0, false
	}
	d, ok := parseSpan(s)
	switch {
	case !ok:
		r.refuse(placeOf(n), path, "write a time with its unit: 45s, 30m, 6.5h, 2d", "%s is %s", path, quoted(s))
	case d%time.Second != 0:
		r.refuse(placeOf(n), path, "round it to whole seconds", "%s is %s", path, quoted(s))
	case d < least || d > most:
		r.refuse(placeOf(n), path, fmt.Sprintf("write a time from %s to %s", spanText(least), spanText(most)), "%s is %s", path, quoted(s))
	default:
		return d, true
	}
	return 0, false
}

var spanPart = regexp.MustCompile(`^([0-9]{1,9}(?:\.[0-9]{1,9})?)([dhms])`)

// parseSpan reads numbers with units, biggest first: 1d12h, 6.5h, 90s. Nothing
// that it accepts can overflow.
func parseSpan(s string) (time.Duration, bool) {
	var sum time.Duration
	units, any := "dhms", false
	for s != "" {
		m := spanPart.FindStringSubmatch(s)
		if m == nil {
			return 0, false
		}
		at := strings.Index(units, m[2])
		if at < 0 {
			return 0, false
		}
		units, any, s = units[at+1:], true, s[len(m[0]):]
		unit, times := m[2], time.Duration(1)
		if unit == "d" {
			unit, times = "h", 24
		}
		d, err := time.ParseDuration(m[1] + unit)
		if err != nil || d > 100*year/times { // divided, since the product may not fit
			return 0, false
		}
		if sum += d * times; sum > 100*year {
			return 0, false
		}
	}
	return sum, any
}

// spanText writes whole seconds as parseSpan reads them: 1d12h, 90s is 1m30s.
func spanText(d time.Duration) string {
	var b strings.Builder
	for _, u := range []struct {
		name string
		size time.Duration
	}{{"d", 24 * time.Hour}, {"h", time.Hour}, {"m", time.Minute}, {"s", time.Second}} {
		if n := d / u.size; n > 0 {
			fmt.Fprintf(&b, "%d%s", n, u.name)
			d -= n * u.size
		}
	}
	if b.Len() == 0 {
		return "0s"
	}
	return b.String()
}
