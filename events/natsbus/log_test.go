package natsbus

import (
	"errors"
	"reflect"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/spotferry/spotferry/events"
)

func TestAppendAndRead(t *testing.T) {
	t.Parallel()
	l, _ := declared(t, Options{})
	a := events.JobAggregate(org, job)
	all := grow(t, l, a, 5)

	for _, tc := range []struct {
		name  string
		of    events.Aggregate
		after uint64
		want  []events.Event
	}{
		{"everything from the beginning", a, 0, all},
		{"only what is behind a position", a, all[2].Position, all[3:]},
		{"nothing behind the newest", a, all[4].Position, nil},
		{"an aggregate that does not exist is empty", events.JobAggregate(org, "other"), 0, nil},
		{"another organisation's job of the same id is empty", events.JobAggregate("zeta", job), 0, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := l.Read(t.Context(), tc.of, tc.after)
			if err != nil || !reflect.DeepEqual(ids(got), ids(tc.want)) {
				t.Errorf("Read = %v, %v; want %v", ids(got), err, ids(tc.want))
			}
		})
	}
}

func TestAppendRefuses(t *testing.T) {
	t.Parallel()
	l, _ := declared(t, Options{})
	a := events.JobAggregate(org, job)
	all := grow(t, l, a, 3)

	t.Run("the same event again is the same answer", func(t *testing.T) {
		for i, e := range all {
			var after uint64
			if i > 0 {
				after = all[i-1].Position
			}
			want := e.Position
			e.Position = 0
			got, err := l.Append(t.Context(), after, e)
			if err != nil || got.Position != want {
				t.Errorf("Append = position %d, %v; want %d", got.Position, err, want)
			}
		}
	})
	t.Run("another event in the same place is a conflict", func(t *testing.T) {
		_, err := l.Append(t.Context(), all[1].Position, follow(t, a, &all[1], waiting(99)))
		if !errors.Is(err, events.ErrConflict) {
			t.Errorf("err = %v, want a conflict", err)
		}
	})
	t.Run("another organisation cannot submit a job of the same id", func(t *testing.T) {
		_, err := l.Append(t.Context(), 0, follow(t, events.JobAggregate("zeta", job), nil, waiting(0)))
		if !errors.Is(err, events.ErrConflict) {
			t.Errorf("err = %v, want a conflict", err)
		}
	})
	t.Run("a position beyond the newest means that the stream has shrunk", func(t *testing.T) {
		e := follow(t, a, &all[2], waiting(3))
		_, err := l.Append(t.Context(), all[2].Position+10, e)
		if !errors.Is(err, events.ErrRegressed) {
			t.Errorf("err = %v, want a regression", err)
		}
		if _, err := l.Read(t.Context(), a, all[2].Position+10); !errors.Is(err, events.ErrRegressed) {
			t.Errorf("Read: err = %v, want a regression", err)
		}
	})
	t.Run("a first event behind another is a wrong call", func(t *testing.T) {
		if _, err := l.Append(t.Context(), all[2].Position, follow(t, a, nil, waiting(0))); err == nil {
			t.Error("it was accepted")
		}
	})
	if got, err := l.Read(t.Context(), a, 0); err != nil || len(got) != 3 {
		t.Errorf("in the end Read = %d events, %v; want 3", len(got), err)
	}
}

func TestGarbageInAnAggregateIsSteppedOver(t *testing.T) {
	t.Parallel()
	l, _ := declared(t, Options{})
	a := events.JobAggregate(org, job)
	first := grow(t, l, a, 1)[0]
	for _, m := range []*nats.Msg{
		{Subject: "sf.v1.job.acme." + string(job) + ".started", Data: []byte("garbage")},
		{Subject: "sf.v1.job.acme." + string(job) + ".x.y.z"},
	} {
		if _, err := l.JetStream().PublishMsg(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	second, err := l.Append(t.Context(), first.Position, follow(t, a, &first, waiting(1)))
	if err != nil || second.Position != 4 {
		t.Fatalf("Append = position %d, %v; want 4", second.Position, err)
	}
	got, err := l.Read(t.Context(), a, 0)
	if err != nil || len(got) != 2 || got[1].ID != second.ID {
		t.Errorf("Read = %v, %v; want the two events", got, err)
	}
	if _, found, err := l.Find(t.Context(), job); !found || err != nil {
		t.Errorf("Find = %v, %v; want found", found, err)
	}
}

func TestAnUnknownTypeIsNotSteppedOver(t *testing.T) {
	t.Parallel()
	l, _ := declared(t, Options{})
	a := events.JobAggregate(org, job)
	first := grow(t, l, a, 1)[0]
	m, err := events.Encode(follow(t, a, &first, waiting(1)))
	if err != nil {
		t.Fatal(err)
	}
	m.Header["ce-type"] = []string{"io.spotferry.job.teleported.v9"}
	if _, err := l.JetStream().PublishMsg(t.Context(), message(m)); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Read(t.Context(), a, 0); !errors.Is(err, events.ErrUnknownType) {
		t.Errorf("Read: err = %v, want an unknown type", err)
	}
	_, err = l.Append(t.Context(), first.Position, follow(t, a, &first, waiting(2)))
	if !errors.Is(err, events.ErrConflict) {
		t.Errorf("Append: err = %v, want a conflict", err)
	}
}

func TestReadSeesABrokenChain(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		damage func(*events.Event)
	}{
		{"a number is missing", func(e *events.Event) { e.Sequence = 4 }},
		{"the event before was altered", func(e *events.Event) { e.Prev = "0" + e.Prev[1:] }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			l, _ := declared(t, Options{})
			a := events.JobAggregate(org, job)
			all := grow(t, l, a, 2)
			e := follow(t, a, &all[1], waiting(2))
			tc.damage(&e)
			if _, err := l.Append(t.Context(), all[1].Position, e); err != nil {
				t.Fatal(err)
			}
			if _, err := l.Read(t.Context(), a, 0); !errors.Is(err, events.ErrRegressed) {
				t.Errorf("err = %v, want a regression", err)
			}
		})
	}
}

func TestFind(t *testing.T) {
	t.Parallel()
	l, _ := declared(t, Options{})
	a := events.JobAggregate("zeta", job)
	grow(t, l, a, 2)
	if got, found, err := l.Find(t.Context(), job); err != nil || !found || got != a {
		t.Errorf("Find = %v, %v, %v; want %v", got, found, err, a)
	}
	if _, found, err := l.Find(t.Context(), "nobody"); err != nil || found {
		t.Errorf("Find of a job that is not there = %v, %v", found, err)
	}
	if _, _, err := l.Find(t.Context(), "*"); err == nil {
		t.Error("Find took a wildcard")
	}
}
