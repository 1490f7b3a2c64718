package failover

import (
	"slices"
	"strings"
	"testing"

	"github.com/spotferry/spotferry/events"
)

// cut has the job given up its first machine as silent and placed on the next; its record is written at step.
func (w *world) cut(step bool) {
	w.in(10, Silent{Epoch: 1, Heard: Heard{Step: 17, At: at(6).Control}})
	w.join(12, w.buy(11, 2, 1, "b", events.ForReplace))
	if step {
		w.start(14, 11)
	}
}

func facts[F events.Fact](evs []events.Event) (out []F) {
	for _, e := range evs {
		if f, ok := e.Fact.(F); ok {
			out = append(out, f)
		}
	}
	return out
}

func TestTheSellersWordRefinesARecord(t *testing.T) {
	for _, tc := range []struct {
		name    string
		do      func(w *world)
		record  events.Cause // of the record
		refined events.Cause // "": it is not
		detail  string       // of the newest word
	}{
		{"taken back, it says after the record", func(w *world) { w.cut(true); w.ended(20, "j1-1-1", "seller", 0) },
			events.CauseSilent, events.CauseReclaim, "seller confirmed"},
		{"taken back, it says before", func(w *world) { w.cut(false); w.ended(13, "j1-1-1", "seller", 0); w.start(14, 11) },
			events.CauseReclaim, "", "no heartbeat"},
		{"it failed", func(w *world) { w.cut(true); w.ended(20, "j1-1-1", "fault", 0) },
			events.CauseSilent, events.CauseHostFault, "failed"},
		{"ended by us it says nothing", func(w *world) { w.cut(true); w.ended(20, "j1-1-1", "us", 0) },
			events.CauseSilent, "", "no heartbeat"},
		{"its agent comes back after the record", func(w *world) { w.cut(true); w.in(20, Returned{Epoch: 1}); w.in(21, Returned{Epoch: 1}) },
			events.CauseSilent, events.CauseSilent, "cut off, not dead"},
		{"its agent comes back before", func(w *world) {
			w.cut(false)
			w.in(13, Returned{Epoch: 1})
			w.start(14, 11)
			w.in(21, Returned{Epoch: 1})
		},
			events.CauseSilent, "", "cut off, not dead"},
		{"a cause that was no guess stands", func(w *world) {
			w.notice(10, 40)
			w.join(12, w.buy(11, 2, 1, "b", events.ForReplace))
			w.in(41, Tick{})
			w.start(42, 11)
			w.ended(43, "j1-1-1", "fault", 0)
		}, events.CauseNotice, "", "the seller gave"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := running()
			tc.do(w)
			w.ended(50, "j1-1-1", "seller", 0) // a second end of the same lease is no news
			r := facts[events.JobFailedOver](w.log)
			if len(r) != 1 || r[0].Record.Cause != tc.record {
				t.Fatalf("records %+v, want one of %s", r, tc.record)
			}
			detail := r[0].Record.Detail
			refined := facts[events.JobFailoverRefined](w.log)
			if len(refined) > 1 || (len(refined) == 1) != (tc.refined != "") {
				t.Fatalf("refined %+v, want %q", refined, tc.refined)
			}
			if len(refined) == 1 {
				f := refined[0]
				if f.N != 1 || f.Cause != tc.refined || len(f.Evidence) != 1 || f.Evidence[0] == "" {
					t.Errorf("%+v", f)
				}
				detail = f.Detail
			}
			if !strings.Contains(detail, tc.detail) {
				t.Errorf("%q, want %q", detail, tc.detail)
			}
		})
	}
}

func TestWhyAMachineIsGone(t *testing.T) {
	for _, tc := range []struct {
		by       string
		capacity events.CapacityType
		want     events.Cause
	}{
		{"seller", events.Spot, events.CauseReclaim},
		{"seller", events.Bid, events.CauseOutbid},
		{"fault", events.Spot, events.CauseHostFault},
		{"machine", events.Spot, events.CauseHostFault},
		{"us", events.Spot, events.CauseOperator},
		{"", events.Spot, events.CauseUnknown},
	} {
		w := running()
		m := *w.job.Current
		m.Pool.Capacity = tc.capacity
		w.job.Current = &m
		out := w.ended(10, "j1-1-1", tc.by, 17)
		if f := facts[events.JobLost](out); len(f) != 1 || f[0].Cause != tc.want || len(f[0].Evidence) != 1 {
			t.Errorf("ended by %q in a %s pool: %+v, want %s", tc.by, tc.capacity, f, tc.want)
		}
	}
}

func TestANewMachineThatIsLeftAsWellHasARecordOfItsOwn(t *testing.T) {
	w := running()
	w.ended(10, "j1-1-1", "seller", 17)
	w.join(12, w.buy(11, 2, 1, "b", events.ForReplace))
	w.notice(13, 133) // before its first step
	w.start(14, 11)
	w.commit(15, 30, true)
	w.join(17, w.buy(16, 3, 1, "c", events.ForReplace))
	w.start(18, 31)
	r := facts[events.JobFailedOver](w.log)
	if len(r) != 2 || r[0].Record.Cause != events.CauseReclaim || r[1].Record.Cause != events.CauseNotice ||
		r[1].Record.From.Lease != "j1-2-1" || r[1].Record.NoticeMS != 120_000 || r[1].Record.LostSteps != 0 {
		t.Errorf("%+v", r)
	}
}

func TestThePhasesOfAStart(t *testing.T) {
	w := running()
	w.ended(10, "j1-1-1", "seller", 17)
	w.join(12, w.buy(11, 2, 1, "b", events.ForReplace))
	out := w.in(20, Stepped{events.JobStarted{Epoch: 2, Lease: "j1-2-1", From: 10, Step: 11,
		Clock: events.AgentClock{ImageMS: 2000, InputsMS: 300, SetupMS: 3500, RestoreMS: 700, FirstStepMS: 1500, AheadMS: 900}}})
	got := map[string]int64{}
	var order []string
	for _, p := range out[len(out)-1].Fact.(events.JobFailedOver).Record.Phases {
		got[p.Name] = p.MS
		if p.Clock == "agent" {
			order = append(order, p.Name)
		}
	}
	if !slices.Equal(order, []string{"inputs-ahead", "image", "inputs", "setup", "restore"}) || got["inputs-ahead"] != 900 || got["setup"] != 1200 || got["image"] != 2000 || got["first-step"] != 8000-4200 {
		t.Errorf("%v of %v", order, got)
	}
}
