package jobfile

import (
	"strings"
	"time"

	"github.com/spotferry/spotferry/events"
)

// together checks what keys mean to each other, and says the defaults aloud.
func (r *reader) together() {
	r.required()
	r.repository()
	r.alternatives()
	r.spotMode()
	r.saving()
	r.limits()
	r.keysOfMounts()

	s := &r.job.Spec
	if _, named := r.at["name"]; !named {
		s.Name = nameFromFile(r.name)
		r.note(place{}, "name", "the job is called %s, after its file", quoted(s.Name))
	}
	fill(&s.Policy.OnBudget, "stop")
	fill(&s.Policy.Prefer, "cheapest")
	fill(&s.Policy.Checkpoint.Dir, "checkpoints")
}

func fill(s *string, value string) {
	if *s == "" {
		*s = value
	}
}

func (r *reader) required() {
	if _, ok := r.at["run"]; !ok {
		r.refuse(place{1, 1}, "run", "write run: with the command that trains", "run is missing: the job would do nothing")
	}
	if r.opt.Deadline != "" {
		r.deadline(place{}, "policy.deadline", r.opt.Deadline)
	}
	if r.opt.Budget != "" {
		r.budget(place{}, "policy.budget", r.opt.Budget)
		return
	}
	if _, ok := r.at["policy.budget"]; !ok {
		at := place{1, 1}
		if p, ok := r.at["policy"]; ok {
			at = p
		}
		r.refuse(at, "policy.budget", "write policy: {budget: $120} with the most the job may ever cost, or give --budget", "policy.budget is missing: nothing is bought without a limit")
	}
}

// spotMode settles use_spot and policy.spot.policy, where the second is the finer one.
func (r *reader) spotMode() {
	mode := &r.job.Spec.Policy.Spot.Mode
	switch {
	case r.useSpot == nil && *mode == "":
		*mode = events.SpotAuto
		r.note(place{}, "policy.spot.policy", "use_spot is not set, which means auto here: spot where that pays and keeps the deadline, on-demand otherwise")
	case r.useSpot == nil:
	case *mode == "" && *r.useSpot:
		*mode = events.SpotOnly
	case *mode == "":
		*mode = events.OnDemandOnly
	case *r.useSpot == (*mode == events.OnDemandOnly):
		r.refuse(r.at["policy.spot.policy"], "policy.spot.policy", "keep policy.spot.policy and remove resources.use_spot",
			"policy.spot.policy is %s and resources.use_spot, on line %d, is %t", *mode, r.at["resources.use_spot"].line, *r.useSpot)
	}
}

func (r *reader) saving() {
	c := &r.job.Spec.Policy.Checkpoint
	if at, ok := r.at["policy.checkpoint.on_notice.grace"]; ok && c.Signal == "" {
		r.warn(at, "policy.checkpoint.on_notice.grace", "set on_notice.signal too", "grace changes nothing without a signal that asks for the save")
	}
	if at, ok := r.at["policy.checkpoint.marker"]; ok && c.Framework == "hf" {
		r.warn(at, "policy.checkpoint.marker", "remove it, or set framework: plain", "marker changes nothing with framework: hf, which knows its own")
	}
}

func (r *reader) limits() {
	p := &r.job.Spec.Policy
	left := p.Deadline.Sub(r.opt.Now.Market)
	if every := time.Duration(p.Checkpoint.IntervalS) * time.Second; !p.Deadline.IsZero() && every >= left {
		r.refuse(r.at["policy.checkpoint.interval"], "policy.checkpoint.interval", "save more often",
			"checkpoint.interval is %s and the deadline is %s away: nothing would ever be saved", spanText(every), spanText(left.Round(time.Second)))
	}
	if p.Deadline.IsZero() && p.Prefer == "deadline" {
		r.refuse(r.at["policy.prefer"], "policy.prefer", "set policy.deadline, or prefer: fastest", "prefer is deadline, and there is none")
	}
	hour := events.Cost(r.job.Spec.Resources.MaxHourlyPrice, time.Hour)
	if p.Budget > 0 && hour > p.Budget {
		at := r.at["policy.max_price"]
		if at == (place{}) {
			at = r.at["resources.max_hourly_cost"]
		}
		r.warn(at, "policy.max_price", "lower it, or raise the budget", "one hour at the highest price allowed (%s) costs more than the budget (%s)", hour.Dollars(), p.Budget.Dollars())
	}
	if len(p.Work.HoursOnS) > 0 {
		if missing := uncovered(r.job.Spec); len(missing) > 0 {
			r.warn(r.at["policy.work.hours_on"], "policy.work.hours_on", "add a line for each, or one for *", "no hours are given for %s: how long the job takes there cannot be told", strings.Join(missing, ", "))
		}
	}
	if p.Deadline.IsZero() && r.at["policy.deadline"] == (place{}) && r.opt.Deadline == "" {
		r.note(place{}, "policy.deadline", "there is no deadline: the job waits for cheap capacity as long as its budget lasts")
	}
}
