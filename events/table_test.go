package events_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/events/eventstest"
)

func TestEveryRowStandsForOneFact(t *testing.T) {
	t.Parallel()
	names, files, facts := map[string]bool{}, map[string]bool{}, map[reflect.Type]bool{}
	for _, row := range events.Table {
		fact := reflect.TypeOf(row.New()).Elem()
		if names[row.Name()] || files[row.SchemaFile()] || facts[fact] {
			t.Errorf("%s, %s or %s stands twice", row.Name(), row.SchemaFile(), fact)
		}
		names[row.Name()], files[row.SchemaFile()], facts[fact] = true, true, true
		if row.Meaning == "" || row.Version < 1 || events.CheckToken("event", row.Event) != nil {
			t.Errorf("%s: version %d, event %q, meaning %q", row.Name(), row.Version, row.Event, row.Meaning)
		}
		if got, ok := events.TypeOf(reflect.ValueOf(row.New()).Elem().Interface()); !ok || got.Name() != row.Name() {
			t.Errorf("the fact of %s is found as %s, %t", row.Name(), got.Name(), ok)
		}
	}
	if _, ok := events.TypeOf(struct{}{}); ok {
		t.Error("a struct of nobody's is found in the table")
	}
}

// envelope are the fields that stand in the same JSON object as a fact's own.
var envelope = []string{"org", "team", "project", "labels", "finality"}

func TestFactsHaveTaggedFieldsOfTheirOwn(t *testing.T) {
	t.Parallel()
	seen := map[reflect.Type]bool{}
	var look func(reflect.Type, bool)
	look = func(of reflect.Type, top bool) {
		for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice || of.Kind() == reflect.Map {
			of = of.Elem()
		}
		if of.Kind() != reflect.Struct || of.PkgPath() != reflect.TypeFor[events.Event]().PkgPath() || seen[of] {
			return
		}
		seen[of] = true
		for i := range of.NumField() {
			f := of.Field(i)
			tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if tag == "" || tag != strings.ToLower(tag) {
				t.Errorf("%s.%s has the JSON name %q", of, f.Name, tag)
			}
			for _, taken := range envelope {
				if top && tag == taken {
					t.Errorf("%s.%s would stand twice in the body, as %q", of, f.Name, tag)
				}
			}
			look(f.Type, false)
		}
	}
	for _, row := range events.Table {
		look(reflect.TypeOf(row.New()), true)
	}
}

func TestSubjectsLieUnderTheirAggregatesFilter(t *testing.T) {
	t.Parallel()
	for _, row := range events.Table {
		e := eventstest.Sample(row)
		m, err := events.Encode(e)
		if err != nil {
			t.Fatal(err)
		}
		if row.Family == "offer" {
			continue
		}
		root := strings.TrimSuffix(e.Aggregate.Filter(), ">")
		if rest, ok := strings.CutPrefix(m.Subject, root); !ok || rest != row.Event {
			t.Errorf("%s travels on %s, its aggregate is %s", row.Name(), m.Subject, e.Aggregate.Filter())
		}
	}
}

func TestEncodeRefusesWhatHasNoSubject(t *testing.T) {
	t.Parallel()
	good := eventstest.Sample(events.Table[0])
	for _, tc := range []struct {
		name string
		do   func(*events.Event)
		want string
	}{
		{"a fact in no row", func(e *events.Event) { e.Fact = 7 }, "no row of the type table"},
		{"a fact in another family's aggregate", func(e *events.Event) { e.Aggregate = events.MoneyAggregate("acme") }, "cannot stand in a money aggregate"},
		{"an organisation that is a wildcard", func(e *events.Event) { e.Aggregate.Org = "*" }, `org "*"`},
		{"a job that is two tokens", func(e *events.Event) { e.Aggregate.ID = "a.b" }, `job "a.b"`},
	} {
		e := good
		tc.do(&e)
		if _, err := events.Encode(e); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.want)
		}
	}
}
