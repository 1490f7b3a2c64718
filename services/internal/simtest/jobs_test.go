package simtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/events/natsbus"
	"github.com/spotferry/spotferry/services/internal/console"
)

// job is one job as its owner knows it.
type job struct {
	id      events.JobID
	work    work
	spec    events.JobSpec
	limit   events.MicroUSD // what it may cost
	at      time.Duration   // when it is submitted
	cancel  time.Duration   // when it is cancelled, 0: never
	tight   bool            // its budget does not suffice
	stopped time.Time       // when the cancellation was accepted
	asked   bool            // it was submitted
}

// agentPatience is how long an agent waits for a save it has asked for, unless the
// job's policy says how long one takes: three times agent.Config.Grace.
const agentPatience = 30 * time.Second

// drawJobs draws what there is to do.
func (w *world) drawJobs() {
	for n := range w.opt.jobs {
		c := w.chance
		j := &job{id: events.JobID(fmt.Sprintf("01sim%016x%02d", c.draw("job", n), n))}
		j.work = work{
			step: c.between(15*time.Second, 30*time.Second, "step", n), saveEvery: 6 + int64(c.below(8, "save every", n)),
			saving: c.between(500*time.Millisecond, 8*time.Second, "saving", n),
		}
		takes := c.between(w.hours(0.08), w.hours(0.2), "takes", n)
		j.work.steps = int64(takes / j.work.step)
		j.at = c.between(0, w.hours(0.25), "submitted", n)
		if n == 0 {
			j.at = 10 * time.Second
		}
		market := takes * scale
		budget := events.Cost(12*events.DollarPerHour, market) + 4*events.Dollar
		switch kind := c.below(8, "kind", n); {
		case kind == 0 && w.opt.trouble.cancels:
			j.cancel = j.at + c.between(10*time.Second, takes, "cancel", n)
		case kind == 1 && w.opt.trouble.cancels, w.opt.trouble.tight:
			j.tight = true // its owner thinks that it takes half as long
			market /= 2
			budget = events.Cost(events.DollarPerHour, market)*3/2 + events.Dollar/4
		}
		grace := int64(0)
		if slow := j.work.step + j.work.saving + 10*time.Second; slow > agentPatience {
			grace = int64(slow / time.Second) // as its owner has to say
		}
		modes := []events.SpotMode{events.SpotAuto, events.SpotAuto, events.SpotAuto, events.SpotOnly, events.OnDemandOnly}
		j.spec = events.JobSpec{
			Name: fmt.Sprint("job-", n), Run: "train",
			Policy: events.Policy{
				Budget:     budget,
				Checkpoint: events.CheckpointPolicy{Framework: "hf", Signal: "SIGUSR1", GraceS: grace},
				Spot:       events.SpotPolicy{Mode: modes[c.below(len(modes), "mode", n)]},
				Work:       events.Work{Steps: j.work.steps, HoursOnS: map[string]int64{"*": int64(market / time.Second)}},
			},
		}
		j.limit = budget
		w.jobs[j.id] = j
		w.order = append(w.order, j.id)
	}
}

// person is somebody at a command line.
type person struct {
	w      *world
	client *console.Client
	close  func()
}

const personName = "sam"

func (w *world) person(about string) (*person, error) {
	op, err := natsbus.OpenOperator(natsbus.OperatorConfig{Dir: w.path("operator"), Entropy: w.chance.entropy("person", about), Now: time.Now})
	if err != nil {
		return nil, err
	}
	creds, err := op.Person(personName, string(console.Admin), natsbus.Validity{From: time.Now()})
	if err != nil {
		return nil, err
	}
	nc, err := natsbus.Connect(natsbus.ConnConfig{Server: newLink(w.current), Credentials: creds, Name: personName, Log: w.log.Named("person")})
	if err != nil {
		return nil, err
	}
	return &person{w, console.NewClient(nc, console.Admin, personName), nc.Close}, nil
}

// insist asks until there is an answer.
func insist[T any](w *world, about string, v console.Verb, request any) (T, error) {
	var none T
	for {
		turn(about)
		var answer T
		p, err := w.person(about)
		if err == nil {
			ctx, cancel := context.WithTimeout(w.ctx, 10*time.Second)
			answer, err = console.Ask[T](ctx, p.client, v, request)
			cancel()
			p.close()
		}
		turn(about)
		var refused *console.Problem
		if err == nil || errors.As(err, &refused) && refused.Code != "internal" && refused.Code != "unavailable" {
			return answer, err
		}
		if !sleep(w.ctx, 3*time.Second) {
			return none, w.ctx.Err()
		}
	}
}

// submit opens a job when its time has come, and cancels it if that is its owner's mood.
func (w *world) submit(j *job) {
	about := "owner-" + string(j.id)
	if !sleep(w.ctx, j.at) {
		return
	}
	_, err := insist[console.Job](w, about, console.DoSubmit, console.SubmitRequest{ID: j.id, Spec: j.spec, Attribution: events.Attribution{Team: "vision"}})
	if w.ctx.Err() != nil {
		return
	}
	if err != nil {
		w.fail("job %s was refused: %v", j.id, err)
		return
	}
	w.mu.Lock()
	j.asked = true
	w.mu.Unlock()
	w.trace("job %s submitted: %d steps, budget %s, %s", j.id, j.work.steps, j.spec.Policy.Budget, j.spec.Policy.Spot.Mode)
	if j.cancel == 0 || !sleep(w.ctx, j.cancel-j.at) {
		return
	}
	v, err := insist[console.Job](w, about, console.DoCancel, console.CancelRequest{Job: string(j.id), Reason: "changed my mind"})
	if err == nil && v.Status == string(events.Cancelled) {
		w.mu.Lock()
		j.stopped = time.Now()
		w.mu.Unlock()
		w.hits.add("job cancelled")
		w.trace("job %s cancelled", j.id)
	}
}

// owner is what a job's owner knows: that it was taken, and when its cancellation was, if it was.
func (w *world) owner(j *job) (taken bool, stopped time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return j.asked, j.stopped
}

// answers is what a person is told of everything, as text.
func (w *world) answers(about string) string {
	var out strings.Builder
	for _, v := range []console.Verb{console.GetJobs, console.GetFailovers, console.GetBill} {
		a, err := insist[json.RawMessage](w, about, v, console.Query{})
		fmt.Fprintf(&out, "%s: %s %v\n", v, a, err)
	}
	return out.String()
}
