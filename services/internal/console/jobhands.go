package console

import (
	"context"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/failover"
)

// Drill is what a failover on demand would cost, as far as it can be told before.
type Drill struct {
	Job      events.JobID           `json:"job"`
	Name     string                 `json:"name"`
	Status   string                 `json:"status"`
	Possible bool                   `json:"possible"`
	Why      string                 `json:"why,omitempty"` // it is not possible
	From     *events.Side           `json:"from,omitempty"`
	To       *events.Pool           `json:"to,omitempty"` // what would be bought now
	Price    events.PerInstanceHour `json:"price,omitempty"`
	BothS    int64                  `json:"paid_twice_s"` // market seconds for which a second machine is paid: its minimum, or a move's time
	Machine  events.MicroUSD        `json:"machine_cost"` // of them
	Saves    bool                   `json:"saves"`        // its trainer can be asked to save on a notice
	LostS    int64                  `json:"lost_s"`       // market seconds of work that would be done again
	Lost     events.MicroUSD        `json:"lost_cost"`
	Expected events.MicroUSD        `json:"expected_cost"`
	Most     events.MicroUSD        `json:"needs_free"` // the least that has to be free for the second machine
	Free     events.MicroUSD        `json:"free"`
}

// steer pauses, resumes or migrates a job.
func (s *Server) steer(ctx context.Context, who asker, v Verb, r JobRequest) (Job, error) {
	reason, err := because(v, r.Reason)
	if err != nil {
		return Job{}, err
	}
	in := map[Verb]failover.Input{
		DoPause:   failover.Pause{By: who.name, Reason: reason},
		DoResume:  failover.Resume{By: who.name, Reason: reason},
		DoMigrate: failover.Migrate{By: who.name, Reason: reason},
	}[v]
	return s.apply(ctx, who, v, r.Job, reason, in)
}

// drill begins a failover on demand.
func (s *Server) drill(ctx context.Context, who asker, r DrillRequest) (Job, error) {
	reason, err := because(DoDrill, r.Reason)
	if err != nil {
		return Job{}, err
	}
	notice := time.Duration(r.DeadlineS) * time.Second
	switch {
	case r.NoNotice && notice != 0:
		return Job{}, &Problem{Code: "invalid", Message: "a drill without notice has no deadline", Remedy: "give --deadline or --no-notice"}
	case !r.NoNotice && (notice <= 0 || notice > longestNotice):
		return Job{}, &Problem{Code: "invalid", Message: fmt.Sprintf("a notice of %s: it has to be above 0 and at most %s", notice, longestNotice), Remedy: "give --deadline 30s"}
	}
	in := failover.Drill{By: who.name, Reason: reason, NoNotice: r.NoNotice}
	if !r.NoNotice {
		in.Deadline = s.cfg.Now().Control.Add(notice)
	}
	return s.apply(ctx, who, DoDrill, r.Job, reason, in)
}

const longestNotice = time.Hour

// apply gives a person's act to a job. One that makes no sense for the job as it
// is comes back as *failover.Refused; the repetition of one that took effect does not.
func (s *Server) apply(ctx context.Context, who asker, v Verb, name, reason string, in failover.Input) (Job, error) {
	id, err := with(s, name, func(r *jobRecord) (events.JobID, error) { return r.job.ID, nil })
	if err != nil {
		return Job{}, err
	}
	j, evs, err := s.cfg.Book.Apply(ctx, id, in)
	if err != nil {
		return Job{}, err
	}
	failover.LogTransitions(s.cfg.Logger, evs)
	s.cfg.Logger.Info("job steered", zap.String("job", string(id)), zap.String("verb", string(v)), zap.String("by", who.name), zap.String("reason", reason))
	return s.viewOf(ctx, j)
}

// drillCost says what a drill would cost before anybody agrees to it: a second
// machine for its minimum or for as long as a move takes, and the work since the newest
// checkpoint if there is no notice, or no way to ask the trainer to save within it.
func (s *Server) drillCost(ctx context.Context, r DrillRequest) (Drill, error) {
	j, err := with(s, r.Job, func(r *jobRecord) (failover.Job, error) { return r.job, nil })
	if err != nil {
		return Drill{}, err
	}
	d := Drill{Job: j.ID, Name: j.Spec.Name, Status: j.Status()}
	if j.Current == nil || j.Phase != failover.Running {
		d.Why = fmt.Sprintf("the job is %s: only a running one has a machine to leave", d.Status)
		return d, nil
	}
	from := j.Current.Side()
	d.From, d.Saves = &from, savesWhenAsked(j.Spec.Policy.Checkpoint.Signal)
	plan, err := s.cfg.Plan(ctx, SubmitRequest{ID: j.ID, Attribution: j.Attribution, Spec: j.Spec})
	if err != nil {
		return d, err
	}
	budgets, err := s.budgets(ctx, string(j.ID))
	if err != nil {
		return d, err
	}
	d.Free = budgets[0].Free
	d.price(plan.Decision)
	if r.NoNotice || !d.Saves {
		d.lose(j, s.cfg.Now().Control, plan.Decision.Inputs.Scale)
	}
	d.Expected = d.Machine + d.Lost
	if d.Possible && d.Most > d.Free {
		d.Possible, d.Why = false, fmt.Sprintf("at least %s has to be free for a second machine, and %s of the budget is", d.Most.Dollars(), d.Free.Dollars())
	}
	return d, nil
}

// savesWhenAsked says whether a trainer that saves on a signal goes on after it, so
// that it is asked at once. Those below end a program by custom.
func savesWhenAsked(signal string) bool {
	return !slices.Contains([]string{"", "SIGTERM", "SIGINT", "SIGQUIT", "SIGHUP", "SIGABRT"}, signal)
}

// price takes the machine that would be bought now.
func (d *Drill) price(plan events.Decision) {
	best := plan.Chosen
	for i := 0; best < 0 && i < len(plan.Candidates); i++ {
		if plan.Candidates[i].WhyNot == "" {
			best = i
		}
	}
	if best < 0 {
		d.Why = "no other machine can be bought now: " + plan.Detail
		return
	}
	c := plan.Candidates[best]
	d.Possible, d.To, d.Price = true, &c.Offer.Pool, c.Offer.Price
	d.BothS = max(c.Offer.Terms.MinimumS, plan.Inputs.RestartS)
	d.Machine = events.CostUp(c.Offer.Price, time.Duration(d.BothS)*time.Second)
	least := min(plan.Inputs.RestartS+plan.Inputs.TeardownS, plan.Inputs.HorizonS)
	d.Most = events.CostUp(c.Max, time.Duration(max(c.Offer.Terms.MinimumS, least))*time.Second)
}

// lose counts the work since the newest checkpoint of this epoch, or since its first step.
func (d *Drill) lose(j failover.Job, now time.Time, scale int64) {
	since := j.Current.Started
	if n := len(j.CommitAt); n > 0 && j.CommitAt[n-1].After(since) {
		since = j.CommitAt[n-1]
	}
	lost := now.Sub(since) * time.Duration(max(scale, 1))
	d.LostS = int64(lost / time.Second)
	d.Lost = events.CostUp(j.Current.Price, lost)
}
