package rehearse

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestStepsDoneAgainAreSetBesideThoseBefore(t *testing.T) {
	t.Parallel()
	off := func(from int64, by float64) func(int64) float64 {
		return func(step int64) float64 {
			if step < from {
				return steady(step)
			}
			return steady(step) * (1 + by)
		}
	}
	for _, tc := range []struct {
		name                           string
		before                         []Life
		life                           Life
		again, compared, exact, agreed int
		firstOff                       int64 // 0: none
		worst                          float64
	}{
		{"the same run again is the same to the last digit", []Life{life(1, 0, 0, 30, steady)}, life(2, 4, 20, 28, steady), 8, 8, 8, 8, 0, 0},
		{"only steps beyond the checkpoint count", []Life{life(1, 0, 0, 30, steady)}, life(2, 4, 30, 40, steady), 0, 0, 0, 0, 0, 0},
		{"steps that only one of them told are passed over", []Life{life(1, 0, 0, 22, steady)}, life(2, 4, 20, 40, steady), 2, 2, 2, 2, 0, 0},
		{"a difference within the tolerance is the same", []Life{life(1, 0, 0, 30, steady)}, life(2, 4, 20, 30, off(25, 5e-5)), 10, 10, 4, 10, 0, 5e-5},
		{"one beyond it is found at its first step", []Life{life(1, 0, 0, 30, steady)}, life(2, 4, 20, 30, off(24, 1e-2)), 10, 10, 3, 3, 24, 1e-2},
		{"without losses there is nothing to compare", []Life{life(1, 0, 0, 30, nil)}, life(2, 4, 20, 30, nil), 10, 0, 0, 0, 0, 0},
		{"nor with losses on one side", []Life{life(1, 0, 0, 30, nil)}, life(2, 4, 20, 30, steady), 10, 0, 0, 0, 0, 0},
		{"of two earlier lives the newer counts", []Life{life(1, 0, 0, 30, off(1, 0.5)), life(2, 4, 10, 30, steady)}, life(3, 8, 20, 30, steady), 10, 10, 10, 10, 0, 0},
		{"what the newer did not reach is taken from the older", []Life{life(1, 0, 0, 30, steady), life(2, 4, 10, 22, steady)}, life(3, 8, 20, 30, steady), 10, 10, 10, 10, 0, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := Compare(tc.before, tc.life, 1e-4)
			first := int64(0)
			if c.FirstOff != nil {
				first = c.FirstOff.Step
			}
			if len(c.Again) != tc.again || c.Compared != tc.compared || c.Exact != tc.exact || c.Agreed != tc.agreed || first != tc.firstOff {
				t.Errorf("again %d, compared %d, exact %d, agreed %d, first off %d; want %d, %d, %d, %d, %d",
					len(c.Again), c.Compared, c.Exact, c.Agreed, first, tc.again, tc.compared, tc.exact, tc.agreed, tc.firstOff)
			}
			if c.Worst != nil && (c.Worst.Off < tc.worst*0.9 || c.Worst.Off > tc.worst*1.1) {
				t.Errorf("the farthest is off by %g, want %g", c.Worst.Off, tc.worst)
			}
			if c.Same() != (tc.compared > 0 && tc.firstOff == 0) {
				t.Errorf("Same = %v", c.Same())
			}
		})
	}
}

// However steps were lost on the way, what is compared is what both told.
func TestAComparisonNeverInventsASteps(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		some := func(name string, l Life) Life {
			keep := rapid.SliceOfN(rapid.Bool(), len(l.Told), len(l.Told)).Draw(t, name)
			var told []Telling
			for i, k := range keep {
				if k {
					told = append(told, l.Told[i])
				}
			}
			l.Told = told
			return l
		}
		a, b := some("before", life(1, 0, 0, 40, steady)), some("after", life(2, 5, 15, 45, steady))
		want := 0
		for _, x := range a.Told {
			for _, y := range b.Told {
				if x.Step == y.Step && x.Step > 15 {
					want++
				}
			}
		}
		c := Compare([]Life{a}, b, 0)
		if len(c.Again) != want || c.Exact != want || c.FirstOff != nil {
			t.Fatalf("%d again, %d exact, first off %v; want %d", len(c.Again), c.Exact, c.FirstOff, want)
		}
	})
}

func TestTellingsGoToTheLifeThatToldThem(t *testing.T) {
	t.Parallel()
	h := History{Lives: []Life{
		{Epoch: 1, Lease: lease(1), Placed: at(0), First: -1}, {Epoch: 2, Lease: lease(1), Placed: at(10), Resumed: true, From: 5, First: -1},
		{Epoch: 3, Lease: lease(3), Placed: at(20), Resumed: true, From: 5, First: -1},
	}}
	x, y := 1.5, 2.5
	lives := Lives(h, []Telling{
		{lease(1), at(-1), 1, nil},        // before anything was placed there
		{lease(1), at(1), 1, nil},         // tells its loss a moment later
		{lease(1), at(1.2), 1, &x},        //
		{lease(1), at(2), 2, &y},          //
		{lease(1), at(11), 0, nil},        // has loaded nothing yet
		{lease(1), at(12), 6, nil},        // the same machine, the next epoch
		{lease(3), at(21), 6, nil},        //
		{"somebody-else", at(22), 9, nil}, //
	})
	if got := lives[0].Told; len(got) != 2 || got[0].Loss != &x || !got[0].At.Equal(at(1)) || got[1].Step != 2 {
		t.Errorf("epoch 1 told %+v", got)
	}
	if got := lives[1].Told; len(got) != 1 || got[0].Step != 6 {
		t.Errorf("epoch 2 told %+v", got)
	}
	if got := lives[2].Told; len(got) != 1 || lives[2].Last() != 6 {
		t.Errorf("epoch 3 told %+v", got)
	}
	if len(h.Lives[0].Told) != 0 {
		t.Error("the history was changed")
	}
}

func TestResumptionsSayWhatLedToThem(t *testing.T) {
	t.Parallel()
	r := good()
	got := Resumptions(r)
	if len(got) != 2 {
		t.Fatalf("%d resumptions", len(got))
	}
	a, b := got[0], got[1]
	if a.Cause != WithNotice || a.Noticed != 25 || a.Reached != 30 || a.From != 25 || a.First != 26 || a.Compared != 5 || a.GapMS != 1100 {
		t.Errorf("with a notice: %+v", a)
	}
	if b.Cause != WithoutNotice || b.Noticed != -1 || b.Reached != 55 || b.From != 40 || b.First != 41 || b.Compared != 15 || time.Duration(b.GapMS)*time.Millisecond != 1100*time.Millisecond {
		t.Errorf("without: %+v", b)
	}
}
