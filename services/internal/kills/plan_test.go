package kills

import (
	"math/rand/v2"
	"reflect"
	"testing"
	"time"
)

// phase is what is going on where a kill hits. The first part of the name is what
// the histogram is about.
type phase string

const (
	inFile   phase = "save: inside a file"
	between  phase = "save: between files"
	complete phase = "save: right after the last file"
	rotating phase = "save: deleting older ones"
	judged   phase = "save: while it is found complete"

	beforeObject phase = "upload: before an object"
	inObject     phase = "upload: inside an object"
	afterObject  phase = "upload: after an object"
	inManifest   phase = "upload: inside the manifest"

	asked     phase = "commit: between manifest and commit"
	answering phase = "commit: while it is asked for"
	answered  phase = "commit: before the answer is seen"

	stepping  phase = "training"
	fetching  phase = "restore: inside an object"
	comparing phase = "restore: while the trainer loads"
	setup     phase = "boot: setup"
	joining   phase = "boot: joining"
)

func phases() []phase {
	return []phase{inFile, between, complete, rotating, judged, beforeObject, inObject, afterObject, inManifest, asked, answering, answered,
		stepping, fetching, comparing, setup, joining}
}

// inside says whether a phase is a save, an upload or a commit.
func (p phase) inside() bool { return p != stepping && p != fetching && p != comparing && !p.booting() }

// booting says whether a phase comes only on a machine that is new.
func (p phase) booting() bool { return p == setup || p == joining }

// returning says whether a phase comes only after something was killed.
func (p phase) returning() bool { return p == fetching || p == comparing || p.booting() }

// victim is what dies.
type victim string

const (
	trainer victim = "trainer"
	agents  victim = "agent"   // its machine's landlord then kills the rest
	host    victim = "host"    // of the machine; the agent goes with it, the trainer is left alone
	whole   victim = "machine" // all of it at once
	warned  victim = "notice"  // the machine, after a warning that begins here
	plane   victim = "plane"   // the whole control plane, which is started again
)

func victims() []victim { return []victim{trainer, agents, host, whole, warned, plane} }

// stroke is one planned kill.
type stroke struct {
	N      int    `json:"n"`
	Layout string `json:"layout"`
	Phase  phase  `json:"phase"`
	Victim victim `json:"victim"`
	// K is which operation of the phase it hits: which write of a save, which step.
	K int `json:"k"`
	// Part is how far into it: of an object's bytes, or of a short time.
	Part float64 `json:"part"`
	// After is how many commits the job makes between the kill before and this one.
	After  int     `json:"after"`
	Notice float64 `json:"notice_s,omitempty"`
	Again  int     `json:"again,omitempty"` // it takes the place of a stroke that found nothing

	MinEpoch int `json:"min_epoch,omitempty"` // filled in when it is armed: who may carry it out
}

// weight is how often something is drawn.
type weight[T any] struct {
	what T
	per  int // of the sum
}

func pick[T any](r *rand.Rand, of []weight[T]) T {
	sum := 0
	for _, w := range of {
		sum += w.per
	}
	n := r.IntN(sum)
	for _, w := range of {
		if n -= w.per; n < 0 {
			return w.what
		}
	}
	panic("weights do not add up")
}

func phaseWeights() []weight[phase] {
	return []weight[phase]{
		{inFile, 21}, {between, 14}, {complete, 6}, {rotating, 3}, {judged, 5},
		{beforeObject, 5}, {inObject, 10}, {afterObject, 5}, {inManifest, 5},
		{asked, 4}, {answering, 5}, {answered, 3},
		{stepping, 9}, {fetching, 3}, {comparing, 2},
	}
}

func victimWeights() []weight[victim] {
	return []weight[victim]{{trainer, 62}, {agents, 15}, {host, 6}, {whole, 10}, {warned, 5}, {plane, 2}}
}

// plan draws n kills, dealt out to layouts in turn. count is how many operations of
// a phase a save of the layout has.
func plan(seed uint64, n int, layouts []string, count func(layout string, p phase) int) [][]stroke {
	out := make([][]stroke, len(layouts))
	for i, l := range layouts {
		share := n / len(layouts)
		if i < n%len(layouts) {
			share++
		}
		r := rand.New(rand.NewPCG(seed, uint64(i)<<32|0x5a17))
		barren := 0 // kills since a commit
		for k := range share {
			s := draw(r, l, count)
			fresh := k == 0 || barren >= 2
			for s.Phase.returning() && (fresh || !out[i][k-1].fatal()) {
				s = draw(r, l, count)
			}
			switch {
			case fresh:
				s.After = max(s.After, 1)
			case out[i][k-1].moves() && r.IntN(5) == 0:
				s = strikeAtBirth(r, s)
			}
			if barren++; s.After > 0 {
				barren = 1
			}
			out[i] = append(out[i], s)
		}
	}
	for number, k := 1, 0; number <= n; k++ { // in about the order in which they come
		for i := range out {
			if k < len(out[i]) {
				out[i][k].N = number
				number++
			}
		}
	}
	return out
}

func draw(r *rand.Rand, layout string, count func(string, phase) int) stroke {
	s := stroke{Layout: layout, Phase: pick(r, phaseWeights()), Victim: pick(r, victimWeights()), Part: r.Float64()}
	s.After = pick(r, []weight[int]{{0, 45}, {1, 40}, {2, 15}})
	s.K = r.IntN(max(count(layout, s.Phase), 1))
	switch s.Phase {
	case fetching:
		s.Victim, s.After = pick(r, []weight[victim]{{agents, 3}, {whole, 2}, {host, 1}}), 0
	case comparing:
		s.Victim, s.After = pick(r, []weight[victim]{{trainer, 4}, {agents, 1}, {whole, 1}}), 0
	}
	if s.Victim == warned {
		s.Notice = 0.3 + 2.2*r.Float64()
	}
	return s
}

// strikeAtBirth makes of a stroke one that hits a machine before it trains.
func strikeAtBirth(r *rand.Rand, s stroke) stroke {
	s.Phase, s.After, s.K, s.Notice = pick(r, []weight[phase]{{setup, 1}, {joining, 1}}), 0, 0, 0
	s.Victim = pick(r, []weight[victim]{{agents, 3}, {whole, 2}, {host, 1}})
	return s
}

// redirect has every stroke kill the same, where that can be there.
func redirect(plan [][]stroke, v victim) {
	for _, of := range plan {
		for i := range of {
			if s := &of[i]; !s.Phase.returning() {
				s.Victim = v
				if v == warned {
					s.Notice = 0.3 + 2.2*s.Part
				}
			}
		}
	}
}

// moves says whether the job needs another machine after it.
func (s stroke) moves() bool { return s.Victim != trainer && s.Victim != plane }

// fatal says whether the trainer dies of it, or goes.
func (s stroke) fatal() bool { return s.Victim != plane }

// delay is a short time that a stroke is late by.
func (s stroke) delay() time.Duration {
	switch s.Phase {
	case judged:
		return time.Duration(s.Part * float64(400*time.Millisecond))
	case answering:
		return time.Duration(s.Part * float64(6*time.Millisecond))
	}
	return 0
}

func TestAPlanIsTheSameForASeedAndMostlyInside(t *testing.T) {
	t.Parallel()
	var names []string
	for _, s := range shapes() {
		names = append(names, s.Name)
	}
	count := func(string, phase) int { return 20 }
	for seed := range uint64(40) {
		p := plan(seed, 1000, names, count)
		if !reflect.DeepEqual(p, plan(seed, 1000, names, count)) || reflect.DeepEqual(p, plan(seed+1, 1000, names, count)) {
			t.Fatalf("seed %d does not decide the plan", seed)
		}
		inside, all, hit, dead := 0, 0, map[phase]int{}, map[victim]int{}
		for _, of := range p {
			barren := 0
			for k, s := range of {
				if barren++; s.After > 0 {
					barren = 1
				}
				if all++; s.Phase.inside() {
					inside++
				}
				hit[s.Phase]++
				dead[s.Victim]++
				if barren > 2 || k == 0 && s.After == 0 {
					t.Errorf("seed %d: %s has %d kills in a row without a commit: a job is paused for little more", seed, s.Layout, barren)
				}
				if s.Phase.returning() && (!of[k-1].fatal() || s.Phase.booting() && !of[k-1].moves()) {
					t.Errorf("seed %d: %s is to be hit in %s, and nothing brings it there", seed, s.Layout, s.Phase)
				}
			}
		}
		if all != 1000 || inside < 730 || len(hit) != len(phases()) || len(dead) != len(victims()) {
			t.Errorf("seed %d: %d kills, %d inside, %v %v", seed, all, inside, hit, dead)
		}
	}
}
