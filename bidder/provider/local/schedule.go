package local

import (
	"fmt"
	"time"

	"github.com/spotferry/spotferry/bidder/trace"
)

// verb is what a host does at a moment.
type verb int

const (
	boot     verb = iota // start the agent
	warn                 // name a deadline
	withdraw             // take it back
	aim                  // kill in the next save
	lapse                // no save came: kill all the same
	kill
)

// action is one entry of a host's plan.
type action struct {
	at      time.Time // control time
	do      verb
	end     time.Time // of warn: the deadline, control time; of kill: when billing ends, market time
	reclaim trace.Reclaim
}

// schedule turns what the market has in store for a machine into a plan, oldest
// first. Metadata names deadlines in whole seconds, so a machine that is warned
// is taken back on one, at most a second before its time.
func schedule(fate []trace.Reclaim, c trace.Clock, launched time.Time) []action {
	var plan []action
	for _, r := range fate {
		at := latest(c.Control(r.At), launched)
		switch {
		case r.Kind == trace.Unnoticed && r.SaveOffset > 0:
			plan = append(plan, action{at: at, do: aim, reclaim: r})
		case r.Kind == trace.Unnoticed:
			plan = append(plan, action{at: at, do: kill, end: latest(r.At, c.Market(launched)), reclaim: r})
		default:
			plan = append(plan, warned(r, at, c, launched)...)
		}
	}
	return plan
}

func warned(r trace.Reclaim, at time.Time, c trace.Clock, launched time.Time) []action {
	deadline := latest(at.Truncate(time.Second), launched)
	first := latest(deadline.Add(-r.Notice), launched)
	then := action{at: deadline, do: kill, end: c.Market(deadline), reclaim: r}
	if r.Kind == trace.Withdrawn {
		then = action{at: first.Add(r.Withdraw), do: withdraw, reclaim: r}
	}
	return []action{{at: first, do: warn, end: deadline, reclaim: r}, then}
}

// forced is what a drill has in store for a machine from now on.
func forced(d Reclaim, c trace.Clock, now time.Time) trace.Reclaim {
	r := trace.Reclaim{Kind: trace.Unnoticed, At: c.Market(now), Drawn: "drill", SaveOffset: control(d.SaveOffsetS), SaveWait: control(d.SaveWaitS)}
	if notice := control(d.NoticeS); notice > 0 {
		// The first whole second that leaves the whole warning.
		deadline := now.Add(notice + time.Second - 1).Truncate(time.Second)
		r.Kind, r.At, r.Notice, r.SaveOffset = trace.Noticed, c.Market(deadline), notice, 0
	}
	if r.Kind == trace.Noticed && d.WithdrawS > 0 {
		r.Kind, r.Withdraw = trace.Withdrawn, control(d.WithdrawS)
	}
	return r
}

// drawnAt says how the moment of a kill was drawn, for the evidence.
func drawnAt(r trace.Reclaim, age time.Duration) string {
	return fmt.Sprintf("%s %.1fs", r.Drawn, age.Seconds())
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
