package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/services/internal/terminal"
)

// short is a duration as people say it: two units at most.
func short(d time.Duration) string {
	if d < 0 {
		return "-" + short(-d)
	}
	const day = 24 * time.Hour
	switch {
	case d < time.Second:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < time.Minute:
		return strings.TrimSuffix(fmt.Sprintf("%.1f", d.Truncate(100*time.Millisecond).Seconds()), ".0") + "s"
	case d < time.Hour:
		return two(d, time.Minute, time.Second, "m", "s")
	case d < day:
		return two(d, time.Hour, time.Minute, "h", "m")
	}
	return two(d, day, time.Hour, "d", "h")
}

func two(d, big, small time.Duration, b, s string) string {
	if rest := d % big / small; rest > 0 {
		return fmt.Sprintf("%d%s%d%s", d/big, b, rest, s)
	}
	return fmt.Sprintf("%d%s", d/big, b)
}

func ms(n int64) string { return short(time.Duration(n) * time.Millisecond) }

func secs(n int64) string { return short(time.Duration(n) * time.Second) }

// stamp is a time of day with its date.
func (p *page) stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.In(p.zone).Format("2006-01-02 15:04:05Z07")
}

// clock is a time of day.
func (p *page) clock(t time.Time) string { return t.In(p.zone).Format("15:04:05.000") }

// price is dollars an hour with four decimals, rounded half up.
func price(p events.PerInstanceHour) string {
	n := int64(p)
	sign := ""
	if n < 0 {
		n, sign = -n, "-"
	}
	n = (n + 50_000) / 100_000
	return fmt.Sprintf("%s$%d.%04d", sign, n/10_000, n%10_000)
}

// saving is what was saved against a price, in dollars and percent.
func saving(paid, instead events.MicroUSD) string {
	if instead <= 0 {
		return ""
	}
	return fmt.Sprintf("%s (%s)", (instead - paid).Dollars(), share(instead-paid, instead))
}

// share is a part in percent of a whole.
func share[T ~int64](part, whole T) string {
	if whole == 0 {
		return ""
	}
	return fmt.Sprintf("%.0f%%", 100*float64(part)/float64(whole))
}

func size(n int64) string {
	const unit = 1000
	f, i := float64(n), 0
	for ; f >= unit && i < 4; i++ {
		f /= unit
	}
	if i == 0 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", f, []string{"B", "kB", "MB", "GB", "TB"}[i])
}

func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// place is a pool without what the columns beside it say.
func place(p events.Pool) string { return p.Seller + "/" + p.Zone }

// side is one end of a move in a line.
func side(s events.Side) string {
	return fmt.Sprintf("epoch %d on %s at %s/h", s.Epoch, s.Pool, price(s.Price))
}

// steps is how far a job is.
func steps(done, all int64) string {
	if all <= 0 {
		return fmt.Sprint(done)
	}
	return fmt.Sprintf("%d/%d", done, all)
}

// markStatus sets a job's status apart.
func markStatus(s terminal.Style, status string) string {
	switch {
	case status == string(events.Succeeded):
		return s.Good(status)
	case status == string(events.Failed), status == string(events.OutOfBudget), status == string(events.MissedDeadline):
		return s.Bad(status)
	case strings.HasPrefix(status, "waiting"), strings.HasPrefix(status, "paused"), status == "draining":
		return s.Warn(status)
	}
	return status
}
