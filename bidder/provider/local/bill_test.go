package local

import (
	"go/ast"
	"go/parser"
	"go/token"
	"math/big"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/spotferry/spotferry/bidder/provider/providertest"
	"github.com/spotferry/spotferry/events"
)

var noon = time.Date(2027, 3, 1, 12, 0, 0, 0, time.UTC)

func TestBill(t *testing.T) {
	t.Parallel()
	const price = 3_600_000_000 // a thousand micro-dollars a second
	flat := []events.PriceFrom{{From: noon, Price: price}}
	moved := []events.PriceFrom{{From: noon, Price: price}, {From: noon.Add(90 * time.Second), Price: 2 * price}}
	for _, tc := range []struct {
		name     string
		from, to time.Duration
		by       string
		prices   []events.PriceFrom
		terms    events.Terms
		lines    int
		want     int64
	}{
		{"seconds are paid as they ran", 0, 10 * time.Second, "us", flat, events.Terms{GrainS: 1}, 1, 10_000},
		{"a begun second is whole", 0, 10*time.Second + 1, "us", flat, events.Terms{GrainS: 1}, 1, 11_000},
		{"a grain counts from the launch", 30 * time.Second, 91 * time.Second, "us", flat, events.Terms{GrainS: 60}, 1, 120_000},
		{"the minimum is paid for less", 0, time.Second, "machine", flat, events.Terms{GrainS: 1, MinimumS: 60}, 1, 60_000},
		{"an aligned grain is paid when touched", 59 * time.Second, 61 * time.Second, "us", flat, events.Terms{GrainS: 60, AlignedGrain: true}, 1, 120_000},
		{"an end on the line begins no grain", 0, 60 * time.Second, "us", flat, events.Terms{GrainS: 60, AlignedGrain: true}, 1, 60_000},
		{"a price holds until the next", 0, 100 * time.Second, "us", moved, events.Terms{GrainS: 1}, 2, 110_000},
		{"what rounding adds is paid at the last price", 0, 100 * time.Second, "us", moved, events.Terms{GrainS: 60}, 2, 150_000},
		{"an aligned grain costs what was asked as it began", 0, 121 * time.Second, "us", moved, events.Terms{GrainS: 60, AlignedGrain: true}, 2, 240_000},
		{"a machine taken back in time is free", 0, 10 * time.Second, "seller", flat, events.Terms{GrainS: 1, FreeIfReclaimedS: 10}, 1, 0},
		{"a moment later it is not", 0, 10*time.Second + 1, "seller", flat, events.Terms{GrainS: 1, FreeIfReclaimedS: 10}, 1, 11_000},
		{"nor when it is given back", 0, 5 * time.Second, "us", flat, events.Terms{GrainS: 1, FreeIfReclaimedS: 10}, 1, 5_000},
		{"no time is not on the bill", 0, 0, "us", flat, events.Terms{GrainS: 1}, 0, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got := bill(stay{noon.Add(tc.from), noon.Add(tc.to), tc.by, tc.prices, tc.terms})
			if total(got) != tc.want || len(got) != tc.lines {
				t.Errorf("%d micro-dollars in %d lines, want %d in %d", total(got), len(got), tc.want, tc.lines)
			}
		})
	}
}

// byTheGrain is a second author of the rules: it pays grain after grain, in fractions.
func byTheGrain(s stay) int64 {
	grain := time.Duration(max(s.terms.GrainS, 1)) * time.Second
	if free := time.Duration(s.terms.FreeIfReclaimedS) * time.Second; free > 0 && s.endedBy == "seller" && s.end.Sub(s.start) <= free {
		return 0
	}
	at := s.start
	if s.terms.AlignedGrain {
		at = time.Unix(0, s.start.UnixNano()/int64(grain)*int64(grain))
	}
	stop := at
	for stop.Before(s.end) {
		stop = stop.Add(grain)
	}
	if least := at.Add(time.Duration(s.terms.MinimumS) * time.Second); stop.Before(least) {
		stop = least
	}
	sums := make([]*big.Rat, len(s.prices))
	for i := range sums {
		sums[i] = new(big.Rat)
	}
	for at.Before(stop) {
		in, next := 0, at.Add(grain)
		for i, p := range s.prices {
			if !p.From.After(at) {
				in = i
			} else if !s.terms.AlignedGrain && i > 0 && p.From.Before(next) {
				next = p.From
			}
		}
		if next.After(stop) {
			next = stop
		}
		sums[in].Add(sums[in], new(big.Rat).SetFrac64(int64(s.prices[in].Price)*int64(next.Sub(at)/time.Second), 3_600_000))
		at = next
	}
	var total int64
	for _, s := range sums {
		total += evenly(s)
	}
	return total
}

func evenly(r *big.Rat) int64 {
	down := new(big.Int).Div(r.Num(), r.Denom())
	rest := new(big.Rat).Sub(r, new(big.Rat).SetInt(down))
	if c := rest.Cmp(big.NewRat(1, 2)); c > 0 || c == 0 && down.Bit(0) == 1 {
		down.Add(down, big.NewInt(1))
	}
	return down.Int64()
}

func TestBillEqualsTwoOtherAuthorsToTheMicroDollar(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		sec := func(label string, most int64) time.Duration {
			return time.Duration(rapid.Int64Range(0, most).Draw(t, label)) * time.Second
		}
		s := stay{
			start: noon.Add(sec("start", 5000)), endedBy: rapid.SampledFrom([]string{"us", "seller", "machine", "fault"}).Draw(t, "by"),
			terms: events.Terms{
				GrainS:           rapid.SampledFrom([]int64{1, 60, 195, 3600}).Draw(t, "grain"),
				MinimumS:         rapid.SampledFrom([]int64{0, 60, 100}).Draw(t, "minimum"),
				FreeIfReclaimedS: rapid.SampledFrom([]int64{0, 600}).Draw(t, "free"),
				AlignedGrain:     rapid.Bool().Draw(t, "aligned"),
			},
		}
		s.end = s.start.Add(sec("length", 20_000))
		at := s.start
		for n := rapid.IntRange(1, 6).Draw(t, "prices"); n > 0 && (at.Before(s.end) || at.Equal(s.start)); n-- {
			s.prices = append(s.prices, events.PriceFrom{From: at, Price: events.PerInstanceHour(rapid.Int64Range(1, 40_000_000_000).Draw(t, "price"))})
			at = at.Add(time.Second + sec("held", 6000))
		}
		got, slow := total(bill(s)), byTheGrain(s)
		other := providertest.Bill(s.start, s.end, s.endedBy, s.prices, s.terms)
		if got != slow || got != int64(other) {
			t.Fatalf("%+v: the bill is %d, by the grain %d, by the fake seller %d", s, got, slow, other)
		}
	})
}

// TestTheMeterSharesNoMoneyCodeWithTheLedger reads this package's sources: from
// events it may take types, and no function that computes or rounds money.
func TestTheMeterSharesNoMoneyCodeWithTheLedger(t *testing.T) {
	t.Parallel()
	computing := map[string]bool{}
	for _, d := range parsed(t, "../../../events/money.go").Decls {
		if f, ok := d.(*ast.FuncDecl); ok {
			computing[f.Name.Name] = f.Name.Name != "String" // text is not arithmetic
		}
	}
	if !computing["Cost"] || !computing["CostUp"] {
		t.Fatalf("events/money.go has %v: this test looks at the wrong file", computing)
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f := parsed(t, name)
		for _, i := range f.Imports {
			path, err := strconv.Unquote(i.Path.Value)
			if err != nil || strings.Contains(path, "bidder/ledger") || strings.Contains(path, "bidder/budget") {
				t.Errorf("%s imports %s", name, i.Path.Value)
			}
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok && computing[s.Sel.Name] {
				t.Errorf("%s uses %s, which events/money.go defines", name, s.Sel.Name)
			}
			return true
		})
	}
}

func parsed(t *testing.T, name string) *ast.File {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	f, err := parser.ParseFile(token.NewFileSet(), name, text, 0)
	if err != nil {
		t.Fatal(err)
	}
	return f
}
