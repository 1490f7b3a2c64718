package plane

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spotferry/spotferry/bidder/trace"
	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/services/internal/console"
)

// knowledge is what a plan's figures come from besides the job file.
type knowledge struct {
	clock     trace.Clock
	moves     int                // of any job, seen here
	acquired  int                // machines on demand, seen here
	rehearsed *console.Rehearsed // nil: it was not
}

func (b *Bidder) knowledge(r console.SubmitRequest) knowledge {
	k := knowledge{clock: b.Clock, rehearsed: r.Rehearsed}
	k.moves, k.acquired = b.service.Experience()
	return k
}

// sized is the spec with the work's size from a rehearsal where the job file gives
// none, and where the size comes from.
func (k knowledge) sized(spec events.JobSpec) (events.JobSpec, console.Figure) {
	f := console.Figure{Name: "work", Unit: "s", Origin: console.Given, Detail: "policy.work.hours_on"}
	if r := k.rehearsed; len(spec.Policy.Work.HoursOnS) == 0 && r != nil && len(r.WorkS) > 0 {
		hours := map[string]int64{}
		for model, s := range r.WorkS {
			hours[model] = int64(k.clock.MarketFor(time.Duration(s)*time.Second) / time.Second)
		}
		spec.Policy.Work.HoursOnS = hours
		f.Origin, f.Rehearsed, f.Detail = console.Measured, true, k.rehearsal()
	}
	models := slices.Sorted(maps.Keys(spec.Policy.Work.HoursOnS))
	if len(models) == 0 {
		return spec, console.Figure{Name: "work", Unit: "s", Origin: console.Assumed, Detail: "nothing is known of it"}
	}
	f.Value = float64(spec.Policy.Work.HoursOnS[models[0]])
	f.Detail = "on " + strings.Replace(models[0], "*", "any GPU", 1) + ", " + f.Detail
	return spec, f
}

// apply puts what was rehearsed into the figures of a job that is only planned, and
// says of each where it comes from.
func (k knowledge) apply(in *events.Inputs) []console.Figure {
	return []console.Figure{k.savePause(in), k.checkpoint(in), k.restart(in), k.acquire(in)}
}

func (k knowledge) savePause(in *events.Inputs) console.Figure {
	f := console.Figure{Name: "save pause", Unit: "s", Origin: console.Assumed, Detail: "saving takes no time"}
	if r := k.rehearsed; r != nil && r.SaveMS != nil {
		in.SaveMS = k.market(*r.SaveMS).Milliseconds()
		f.Origin, f.Rehearsed, f.Detail = console.Measured, true, k.rehearsal()
	}
	f.Value = float64(in.SaveMS) / 1000
	return f
}

func (k knowledge) checkpoint(in *events.Inputs) console.Figure {
	f := console.Figure{Name: "checkpoint", Unit: "bytes", Origin: console.Assumed, Detail: "carrying it elsewhere costs nothing"}
	if r := k.rehearsed; r != nil && r.StateBytes != nil {
		in.StateBytes = *r.StateBytes
		f.Origin, f.Rehearsed, f.Detail = console.Measured, true, k.rehearsal()
	}
	f.Value = float64(in.StateBytes)
	return f
}

// restart is what a move costs. What moves of other jobs took here is a guess for
// this one, whose own start was rehearsed: that, and a machine to start on, is the least.
func (k knowledge) restart(in *events.Inputs) console.Figure {
	f := console.Figure{Name: "restart", Unit: "s", Origin: console.Assumed, Detail: "a tenth of the time that a machine may take to boot"}
	if k.moves > 0 {
		f.Origin, f.Detail = console.Measured, fmt.Sprintf("the longest of the last moves here (%d seen)", k.moves)
	}
	if r := k.rehearsed; r != nil && r.StartMS != nil {
		start := k.market(*r.StartMS)
		own := in.AcquireS + int64((start+time.Second-1)/time.Second)
		if k.moves == 0 || own > in.RestartS {
			in.RestartS, f.Origin, f.Rehearsed = own, console.Measured, true
			f.Detail = fmt.Sprintf("%.1f s for inputs, setup, restore and the first step, %s; %d s for a machine", start.Seconds(), k.rehearsal(), in.AcquireS)
			if k.acquired == 0 {
				f.Origin, f.Detail = console.PartlyAssumed, f.Detail+", assumed"
			}
		}
	}
	f.Value = float64(in.RestartS)
	return f
}

func (k knowledge) acquire(in *events.Inputs) console.Figure {
	f := console.Figure{Name: "acquire", Unit: "s", Value: float64(in.AcquireS), Origin: console.Assumed, Detail: "a twentieth of the time that a machine may take to boot"}
	if k.acquired > 0 {
		f.Origin, f.Detail = console.Measured, fmt.Sprintf("the longest of the last machines on demand here (%d seen)", k.acquired)
	}
	return f
}

func (k knowledge) market(ms int64) time.Duration {
	return k.clock.MarketFor(time.Duration(ms) * time.Millisecond)
}

func (k knowledge) rehearsal() string {
	return fmt.Sprintf("rehearsed %s on %s", k.rehearsed.At.UTC().Format("2006-01-02 15:04Z"), k.rehearsed.Where)
}
