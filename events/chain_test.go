package events_test

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/events/eventstest"
)

// chain builds an aggregate of n events with Follow, each read back from its bytes.
func chain(t *rapid.T, n int) []events.Event {
	var rows []events.EventType
	for _, r := range events.Table {
		if r.Family == "job" {
			rows = append(rows, r)
		}
	}
	a := events.JobAggregate("acme", "01k5c3v7q2w8r9t0y1z2x3m4n5")
	var all []events.Event
	var prev *events.Event
	for i := range n {
		fact := eventstest.Sample(rapid.SampledFrom(rows).Draw(t, "type")).Fact
		e, err := events.Follow(a, prev, fact)
		if err != nil {
			t.Fatal(err)
		}
		e.Source, e.Time = "/spotferry/test", time.Unix(int64(i), 0).UTC()
		if i == 0 {
			e.Attribution = events.Attribution{Org: "acme", Team: "nlp"}
			e.Correlation = string(a.ID)
		}
		m, err := events.Encode(e)
		if err != nil {
			t.Fatal(err)
		}
		read, err := events.Decode(m)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, read)
		prev = &all[i]
	}
	return all
}

func TestAChainIsGapFreeAndHoldsTogether(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		all := chain(t, rapid.IntRange(1, 8).Draw(t, "n"))
		prev := ""
		for i, e := range all {
			if e.Sequence != uint64(i+1) || string(e.ID) != fmt.Sprintf("%s-%d", e.Aggregate.Key(), i+1) || e.Prev != prev {
				t.Fatalf("event %d is %s, sequence %d, after %q; want %q", i, e.ID, e.Sequence, e.Prev, prev)
			}
			if e.Attribution.Team != "nlp" || e.Correlation != e.Aggregate.ID {
				t.Fatalf("event %d lost its attribution: %+v", i, e)
			}
			h, err := e.Hash()
			if err != nil {
				t.Fatal(err)
			}
			prev = h
		}
	})
}

func TestTheHashCoversContentAndPlace(t *testing.T) {
	t.Parallel()
	e := eventstest.Sample(events.Table[0])
	hash := func(e events.Event) string {
		h, err := e.Hash()
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	base := hash(e)
	for name, do := range map[string]func(*events.Event){
		"the fact": func(e *events.Event) {
			f := e.Fact.(events.JobSubmitted)
			f.By = "eve"
			e.Fact = f
		},
		"the attribution":   func(e *events.Event) { e.Attribution.Team = "eve" },
		"the finality":      func(e *events.Event) { e.Finality = events.Provisional },
		"the commands":      func(e *events.Event) { e.Commands = []events.Command{{ID: "x"}} },
		"the id":            func(e *events.Event) { e.ID = "other-1" },
		"the previous hash": func(e *events.Event) { e.Prev = "00" },
		"the type":          func(e *events.Event) { e.Fact = events.JobReleased{} },
	} {
		changed := e
		do(&changed)
		if hash(changed) == base {
			t.Errorf("%s can change and the hash does not", name)
		}
	}
	again := e
	again.Position, again.Trace = 99, "other"
	if hash(again) != base {
		t.Error("where an event stands in a stream, or its trace, changes the hash")
	}
}

func TestEveryHashSurvivesTheWire(t *testing.T) {
	t.Parallel()
	everyType(t, func(t *testing.T, _ events.EventType, e events.Event) {
		before, err := e.Hash()
		if err != nil {
			t.Fatal(err)
		}
		read, err := events.Decode(encode(t, e))
		if err != nil {
			t.Fatal(err)
		}
		if after, err := read.Hash(); err != nil || after != before {
			t.Errorf("hash is %s when written, %s when read, %v", before, after, err)
		}
	})
}

func TestTheHashIsOfWhatWasWrittenAlsoByALaterVersion(t *testing.T) {
	t.Parallel()
	row, _ := events.TypeOf(events.JobReleased{})
	hashes := map[string]bool{}
	for _, more := range []string{"", `"later":1,`, `"later":2,`} {
		m := clone(encode(t, eventstest.Sample(row)))
		m.Body = append([]byte("{"+more), m.Body[1:]...)
		read, err := events.Decode(m)
		if err != nil {
			t.Fatal(err)
		}
		next, err := events.Follow(read.Aggregate, &read, events.JobReleased{})
		if err != nil {
			t.Fatal(err)
		}
		hashes[next.Prev] = true
	}
	if len(hashes) != 3 {
		t.Errorf("three different events lead to %d previous hashes", len(hashes))
	}
}

func TestTwoWritersOfOneNumberAreToldApart(t *testing.T) {
	t.Parallel()
	row, _ := events.TypeOf(events.JobReleased{})
	one, two := eventstest.Sample(row), eventstest.Sample(row)
	two.Fact = events.JobReleased{Lease: "other-1-1"}
	a, b := encode(t, one), encode(t, two)
	if a.Get("ce-id") != b.Get("ce-id") || a.Get(events.HeaderMsgID) == b.Get(events.HeaderMsgID) {
		t.Errorf("ids %s and %s, message ids %s and %s", a.Get("ce-id"), b.Get("ce-id"), a.Get(events.HeaderMsgID), b.Get(events.HeaderMsgID))
	}
}

func TestOwedReturnsOneKindInOrder(t *testing.T) {
	t.Parallel()
	e := events.Event{Commands: []events.Command{{ID: "1", Kind: events.Tell}, {ID: "2", Kind: events.Release}, {ID: "3", Kind: events.Tell}}}
	if got := events.Owed(e, events.Tell); !reflect.DeepEqual(got, []events.Command{e.Commands[0], e.Commands[2]}) {
		t.Errorf("owed: %v", got)
	}
	if got := events.Owed(e, events.Acquire); got != nil {
		t.Errorf("owed: %v", got)
	}
}
