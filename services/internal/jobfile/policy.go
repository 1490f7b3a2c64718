package jobfile

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/spotferry/spotferry/events"
)

// maxBudget keeps sums over all jobs of an organisation far inside an int64.
const maxBudget = 10_000_000 * events.Dollar

const budgetRemedy = "write the most the job may ever cost, in US dollars, with at most six decimals: budget: $120"

func (r *reader) readBudget(path string, n *yaml.Node) {
	if s, ok := r.text(path, n); ok && r.opt.Budget == "" {
		r.budget(placeOf(n), path, s)
	}
}

// budget reads the limit of the file, or with no place that of the command line.
func (r *reader) budget(at place, path, s string) {
	v, err := events.ParseMicroUSD(s)
	switch {
	case err != nil && foreign(s):
		r.refuse(at, path, budgetRemedy, "budget is %s: the books are in US dollars", quoted(s))
	case err != nil:
		r.refuse(at, path, budgetRemedy, "budget is %s, which is not an amount", quoted(s))
	case v <= 0:
		r.refuse(at, path, budgetRemedy, "budget is %s: nothing can be bought for that", quoted(s))
	case v > maxBudget:
		r.refuse(at, path, "write a smaller one", "budget is %s; the most is %s", quoted(s), maxBudget.Dollars())
	default:
		r.job.Spec.Policy.Budget = v
	}
}

var currency = regexp.MustCompile(`(?i)[€£¥₹]|\b(EUR|GBP|JPY|CNY|INR|CHF|CAD|AUD)\b`)

func foreign(s string) bool { return currency.MatchString(s) }

// readMaxPrice reads resources.max_hourly_cost and policy.max_price, which mean
// the same; the lower one holds.
func (r *reader) readMaxPrice(path string, n *yaml.Node) {
	s, ok := r.text(path, n)
	if !ok {
		return
	}
	const remedy = "write the most an hour of the machine may cost, in US dollars: 2.50"
	v, err := events.ParsePerInstanceHour(strings.TrimSuffix(s, "/h"))
	switch {
	case err != nil:
		r.refuse(placeOf(n), path, remedy, "%s is %s, which is not a price", path, quoted(s))
		return
	case v <= 0:
		r.refuse(placeOf(n), path, remedy, "%s is %s: nothing can be bought for that", path, quoted(s))
		return
	}
	have := &r.job.Spec.Resources.MaxHourlyPrice
	if *have != 0 && *have != v {
		r.note(placeOf(n), path, "max_hourly_cost and max_price differ; the lower holds")
		v = min(v, *have)
	}
	*have = v
}

const deadlineRemedy = "write a time with its zone, 2030-01-31T18:00:00Z, or one from now, +36h"

func (r *reader) readDeadline(path string, n *yaml.Node) {
	if s, ok := r.text(path, n); ok && r.opt.Deadline == "" {
		r.deadline(placeOf(n), path, s)
	}
}

// deadline reads the time of the file, or with no place that of the command line.
func (r *reader) deadline(place place, path, s string) {
	now := r.opt.Now.Market
	at, wrong := parseDeadline(s, now)
	dated := !now.IsZero() || strings.HasPrefix(s, "+")
	switch {
	case wrong != "":
		r.refuse(place, path, deadlineRemedy, "deadline is %s: %s", quoted(s), wrong)
	case dated && !at.After(now):
		r.refuse(place, path, deadlineRemedy, "deadline is %s, and it is %s now", quoted(s), now.UTC().Format(time.RFC3339))
	case dated && at.Sub(now) > year:
		r.refuse(place, path, "write one within a year, or leave it out for none", "deadline is %s", quoted(s))
	default:
		r.job.Spec.Policy.Deadline = at.UTC()
	}
}

var withoutZone = regexp.MustCompile(`^\d{4}-\d\d?-\d\d?([Tt ]+\d\d?:\d\d(:\d\d(\.\d*)?)?)?$`)

// parseDeadline reads RFC 3339 or +span. A time without a zone is two times on
// the night the clocks go back and none on the night they go forward.
func parseDeadline(s string, now time.Time) (at time.Time, wrong string) {
	if rest, relative := strings.CutPrefix(s, "+"); relative {
		d, ok := parseSpan(rest)
		if !ok || d <= 0 {
			return at, "that is no time from now"
		}
		return now.Add(d), ""
	}
	if at, err := time.Parse(time.RFC3339, s); err == nil {
		return at, ""
	}
	if _, ok := parseSpan(s); ok {
		return at, "a time from now begins with +"
	}
	if withoutZone.MatchString(s) {
		return at, "it has no time zone, or no time of day"
	}
	return at, "that is no time"
}

// country is the shape of ISO 3166-1 alpha-2.
var country = regexp.MustCompile(`^[A-Za-z]{2}$`)

func (r *reader) readCountries(path string, n *yaml.Node) {
	if n.Kind == yaml.ScalarNode && n.Value == events.AnyCountry {
		r.job.Spec.Policy.Countries = []string{events.AnyCountry}
		return
	}
	list := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode {
		list = r.items(n)
	}
	var out []string
	for _, item := range list {
		s, ok := r.text(path, item)
		if !ok {
			continue
		}
		code := strings.ToUpper(s)
		switch {
		case !country.MatchString(s):
			r.refuse(placeOf(item), path, "write two-letter codes, such as [DE, FR]", "country %s is not a two-letter code", quoted(s))
		case code == "EU":
			r.refuse(placeOf(item), path, "list its countries, such as [DE, FR, NL]", "EU is not a country")
		case code == "UK":
			r.refuse(placeOf(item), path, "write GB", "the code of the United Kingdom is GB")
		case !slices.Contains(out, code):
			out = append(out, code)
		}
	}
	r.job.Spec.Policy.Countries = out
}

func (r *reader) readTrust(path string, n *yaml.Node) {
	list := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode {
		list = r.items(n)
	}
	var out []events.Trust
	for _, item := range list {
		s, ok := r.choice(path, item, string(events.TrustOwn), string(events.TrustDataCentre), string(events.TrustCommunity))
		if ok && !slices.Contains(out, events.Trust(s)) {
			out = append(out, events.Trust(s))
		}
	}
	r.job.Spec.Policy.Trust = out
}

func (r *reader) readSpotMode(path string, n *yaml.Node) {
	if s, ok := r.choice(path, n, string(events.SpotOnly), string(events.SpotAuto), string(events.OnDemandOnly)); ok {
		r.job.Spec.Policy.Spot.Mode = events.SpotMode(s)
	}
}

func (r *reader) readReturn(path string, n *yaml.Node) {
	if v, ok := r.yesNo(path, n); ok {
		r.job.Spec.Policy.Spot.ReturnToSpot = &v
	}
}

func (r *reader) readMinSaving(path string, n *yaml.Node) {
	s, ok := r.text(path, n)
	if !ok {
		return
	}
	digits, percent := strings.CutSuffix(s, "%")
	v, err := strconv.Atoi(digits)
	if !percent || err != nil || !isDigits(digits) || v < 1 || v > 99 {
		r.refuse(placeOf(n), path, "write a whole percentage from 1% to 99%, such as 5%", "min_saving is %s", quoted(s))
		return
	}
	r.job.Spec.Policy.Spot.MinSavingPct = v
}

// readWaitForSpot reads how long a job on auto would wait before on-demand. The
// choice rests on the job's progress against its deadline instead.
func (r *reader) readWaitForSpot(path string, n *yaml.Node) {
	if n.Tag != "!!bool" {
		if _, ok := r.span(path, n, time.Second, year); !ok {
			return
		}
	} else if isFalse(n) {
		return
	}
	r.warn(placeOf(n), path, "leave it out, or use policy: spot to wait without end", "%s changes nothing: a job on auto takes on-demand as soon as its progress falls behind, and not before", path)
}

// readTokens takes a job's size in a unit that trainers do not tell their progress in.
func (r *reader) readTokens(path string, n *yaml.Node) {
	s, ok := r.text(path, n)
	if !ok {
		return
	}
	if !tokens.MatchString(s) {
		r.refuse(placeOf(n), path, "write a number such as 300M or 1.5B", "%s is %s", path, quoted(s))
		return
	}
	r.warn(placeOf(n), path, "give work.steps, and work.hours_on for each model", "%s changes nothing: progress is told in steps", path)
}

var tokens = regexp.MustCompile(`^[0-9]{1,18}(\.[0-9]{1,6})?[KMBT]?$`)

func (r *reader) readHours(path string, n *yaml.Node) {
	if n.Kind != yaml.MappingNode {
		r.refuse(placeOf(n), path, "write {V100: 6.5h}, with * for any other model", "hours_on is %s", kindOf(n))
		return
	}
	hours := map[string]int64{}
	for _, p := range r.pairs(path, n) {
		if p.name != "*" && !acceleratorName.MatchString(p.name) {
			r.refuse(placeOf(p.key), path, "write {V100: 6.5h}, with * for any other model", "%s is not a model's name", quoted(p.name))
			continue
		}
		if d, ok := r.span(join(path, p.name), p.val, time.Second, year); ok {
			hours[p.name] = int64(d / time.Second)
		}
	}
	if len(hours) > 0 {
		r.job.Spec.Policy.Work.HoursOnS = hours
	}
}
