package checkpoint_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/spotferry/spotferry/checkpoint"
)

func TestInterval(t *testing.T) {
	t.Parallel()
	const most = time.Duration(math.MaxInt64)
	for _, tc := range []struct {
		name       string
		save, mtbr time.Duration
		want       time.Duration
		err        error
	}{
		{"a minute's save and a reclaim every two hours: two hours over root sixty", time.Minute, 2 * time.Hour, 929516003092, nil},
		{"two seconds and 400: forty", 2 * time.Second, 400 * time.Second, 40 * time.Second, nil},
		{"a free save is made at every step", 0, time.Hour, 0, nil},
		{"a save of less than nothing as well", -time.Second, time.Hour, 0, nil},
		{"never more time saving than training", time.Hour, time.Minute, time.Hour, nil},
		{"as long as a duration can be", most, most, most, nil},
		{"no rate, no guess", time.Minute, 0, 0, checkpoint.ErrNoRate},
		{"a negative rate is none", time.Minute, -time.Hour, 0, checkpoint.ErrNoRate},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got, err := checkpoint.Interval(tc.save, tc.mtbr)
			if !errors.Is(err, tc.err) || (got-tc.want).Abs() > time.Microsecond {
				t.Errorf("Interval(%v, %v) = %v, %v; want %v, %v", tc.save, tc.mtbr, got, err, tc.want, tc.err)
			}
		})
	}
}

// TestIntervalIsTheMinimum compares with its neighbours the cost Young minimises:
// the share of time spent saving plus the expected share lost.
func TestIntervalIsTheMinimum(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		save := time.Duration(rapid.Int64Range(1e6, 1e12).Draw(t, "save"))
		mtbr := save * time.Duration(rapid.Int64Range(2, 1e4).Draw(t, "mtbr/save"))
		at, err := checkpoint.Interval(save, mtbr)
		if err != nil {
			t.Fatal(err)
		}
		cost := func(i float64) float64 { return float64(save)/i + i/(2*float64(mtbr)) }
		for _, factor := range []float64{0.9, 1.1} {
			if cost(float64(at)) > cost(float64(at)*factor) {
				t.Fatalf("%v costs more than %v times it", at, factor)
			}
		}
	})
}

func ref(epoch int, step int64) checkpoint.Ref {
	return checkpoint.Ref{Name: fmt.Sprintf("%010d-%020d", epoch, step), Epoch: epoch, Step: step}
}

func TestRetain(t *testing.T) {
	t.Parallel()
	all := []checkpoint.Ref{ref(2, 15), ref(2, 5), ref(1, 20), ref(1, 10)}
	for _, tc := range []struct {
		name   string
		refs   []checkpoint.Ref
		keep   int
		pinned []string
		drop   []checkpoint.Ref
	}{
		{"nothing of nothing", nil, 3, nil, nil},
		{"nothing when there is room", all, 4, nil, nil},
		{"the oldest go", all, 2, nil, all[2:]},
		{"a later epoch is newer, though its step is lower", all, 3, nil, all[3:]},
		{"the newest stays when none should", all, 0, nil, all[1:]},
		{"and when fewer than none should", all, -5, nil, all[1:]},
		{"what is pinned stays and does not count", all, 2, []string{all[1].Name}, all[3:]},
		{"the order given does not matter", []checkpoint.Ref{all[3], all[0], all[2], all[1]}, 1, nil, all[1:]},
		{"one named twice is one", []checkpoint.Ref{all[0], all[0], all[1]}, 2, nil, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			pinned := map[string]bool{}
			for _, name := range tc.pinned {
				pinned[name] = true
			}
			before := slices.Clone(tc.refs)
			if got := checkpoint.Retain(tc.refs, tc.keep, pinned); !slices.Equal(got, tc.drop) {
				t.Errorf("Retain = %v, want %v", got, tc.drop)
			}
			if !slices.Equal(tc.refs, before) {
				t.Error("the argument was changed")
			}
		})
	}
}

func TestRetainProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		refs := rapid.SliceOfNDistinct(rapid.Custom(func(t *rapid.T) checkpoint.Ref {
			return ref(rapid.IntRange(1, 5).Draw(t, "epoch"), rapid.Int64Range(0, 20).Draw(t, "step"))
		}), 1, 30, func(r checkpoint.Ref) string { return r.Name }).Draw(t, "refs")
		keep := rapid.IntRange(-1, 10).Draw(t, "keep")
		pin := rapid.SampledFrom(refs).Draw(t, "pin").Name
		drop := checkpoint.Retain(refs, keep, map[string]bool{pin: true})
		newest := slices.MaxFunc(refs, func(a, b checkpoint.Ref) int {
			return slices.Compare([]int64{int64(a.Epoch), a.Step}, []int64{int64(b.Epoch), b.Step})
		})
		if slices.Contains(drop, newest) {
			t.Fatal("the newest is dropped")
		}
		if slices.ContainsFunc(drop, func(r checkpoint.Ref) bool { return r.Name == pin }) {
			t.Fatal("the pinned one is dropped")
		}
		if kept := len(refs) - len(drop); kept < min(len(refs), max(keep, 1)) || kept > max(keep, 1)+1 {
			t.Fatalf("%d of %d are kept, want %d and perhaps the pinned one", kept, len(refs), keep)
		}
		if again := checkpoint.Retain(rapid.Permutation(refs).Draw(t, "order"), keep, map[string]bool{pin: true}); !slices.Equal(again, drop) {
			t.Fatal("the order of the argument matters")
		}
	})
}
