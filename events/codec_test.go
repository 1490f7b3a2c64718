package events_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/events/eventstest"
)

// everyType runs a test for the sample of every row, commands included where a type may have them.
func everyType(t *testing.T, f func(t *testing.T, row events.EventType, e events.Event)) {
	t.Helper()
	for _, row := range events.Table {
		t.Run(row.Family+"."+row.Event, func(t *testing.T) {
			t.Parallel()
			e := eventstest.Sample(row)
			if row.Family == "job" {
				e.Commands = []events.Command{
					{ID: "a-1", Kind: events.Acquire, Epoch: 3, N: 1, Purpose: events.ForReplace, Avoid: []events.Pool{{Seller: "aws"}}, NotTill: e.Time, Reason: "é\n"},
					{ID: "a-2", Kind: events.Tell, Epoch: 2, Order: events.OrderStop},
				}
			}
			f(t, row, e)
		})
	}
}

func encode(t *testing.T, e events.Event) events.Message {
	t.Helper()
	m, err := events.Encode(e)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// told is what an event says, without what is remembered of how it was read.
func told(e events.Event) events.Event {
	return events.Event{
		ID: e.ID, Aggregate: e.Aggregate, Sequence: e.Sequence, Source: e.Source, Time: e.Time, Correlation: e.Correlation,
		Causation: e.Causation, Prev: e.Prev, Trace: e.Trace, Attribution: e.Attribution, Finality: e.Finality, Fact: e.Fact, Commands: e.Commands,
	}
}

func clone(m events.Message) events.Message {
	return events.Message{Subject: m.Subject, Header: maps.Clone(m.Header), Body: bytes.Clone(m.Body)}
}

func TestEveryFactSurvivesTheWire(t *testing.T) {
	t.Parallel()
	everyType(t, func(t *testing.T, _ events.EventType, e events.Event) {
		got, err := events.Decode(encode(t, e))
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(told(got), e) {
			t.Errorf("read\n%+v\nwritten\n%+v", got, e)
		}
	})
}

func TestTheSameEventGivesTheSameBytes(t *testing.T) {
	t.Parallel()
	everyType(t, func(t *testing.T, _ events.EventType, e events.Event) {
		e.Attribution.Labels = map[string]string{"a": "1", "b": "2", "c": "3", "d": "4"}
		first := encode(t, e)
		for range 10 {
			if again := encode(t, e); !reflect.DeepEqual(again, first) {
				t.Fatalf("%s\nthen\n%s", first.Body, again.Body)
			}
		}
		read, err := events.Decode(first)
		if err != nil {
			t.Fatal(err)
		}
		if again := encode(t, read); !reflect.DeepEqual(again, first) {
			t.Errorf("read and written again:\n%s\nfirst\n%s", again.Body, first.Body)
		}
	})
}

func TestUnknownFieldsAndHeadersAreSkipped(t *testing.T) {
	t.Parallel()
	everyType(t, func(t *testing.T, _ events.EventType, e events.Event) {
		m := clone(encode(t, e))
		m.Header["ce-laterattribute"] = []string{"x"}
		m.Header["Nats-Sequence"] = []string{"9"}
		m.Body = append([]byte(`{"field_of_a_later_version":[{"x":null}],`), m.Body[1:]...)
		if got, err := events.Decode(m); err != nil || !reflect.DeepEqual(told(got), e) {
			t.Errorf("read %+v, %v", got, err)
		}
	})
}

// A field of another JSON type is refused by its name, at whatever depth the type checks it.
func TestWrongTypesAreRefusedByName(t *testing.T) {
	t.Parallel()
	everyType(t, func(t *testing.T, row events.EventType, e events.Event) {
		m := encode(t, e)
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(m.Body, &fields); err != nil {
			t.Fatal(err)
		}
		for _, name := range slices.Sorted(maps.Keys(fields)) {
			wrong := `{"a":"b"}`
			if fields[name][0] == '{' {
				wrong = `[7]`
			}
			bad := maps.Clone(fields)
			bad[name] = json.RawMessage(wrong)
			body, err := json.Marshal(bad)
			if err != nil {
				t.Fatal(err)
			}
			_, err = events.Decode(events.Message{Subject: m.Subject, Header: m.Header, Body: body})
			if !errors.Is(err, events.ErrMalformed) || !strings.Contains(err.Error(), fmt.Sprintf("field %q", name)) || !strings.Contains(err.Error(), row.Name()) {
				t.Errorf("%s given %s: %v", name, wrong, err)
			}
		}
	})
}

func TestDeepWrongTypesAreRefusedByPath(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		fact           events.Fact
		old, new, path string
	}{
		{events.LeaseEnded{}, `"market_from":"2030-`, `"market_from":"3020-99-`, `"prices.0.market_from"`},
		{events.LeaseIntended{}, `"observed":"2030-`, `"observed":"next `, `"offer.observed"`},
		{events.LeaseIntended{}, `"budget":"12.345678"`, `"budget":"1e308"`, `"decision.inputs.budget"`},
		{events.JobFailedOver{}, `"lost_cost":"12.345678"`, `"lost_cost":12.345678`, `"record.lost_cost"`},
		{events.JobSubmitted{}, `"vcpu":11`, `"vcpu":"many"`, `"spec.resources.vcpu"`},
	} {
		row, _ := events.TypeOf(tc.fact)
		m := encode(t, eventstest.Sample(row))
		bad := strings.Replace(string(m.Body), tc.old, tc.new, 1)
		if bad == string(m.Body) {
			t.Errorf("the sample of %s has no %s", row.Name(), tc.old)
			continue
		}
		m.Body = []byte(bad)
		if _, err := events.Decode(m); !errors.Is(err, events.ErrMalformed) || !strings.Contains(err.Error(), tc.path) {
			t.Errorf("%s with %s: %v, want %s named", row.Name(), tc.new, err, tc.path)
		}
	}
}

func TestMalformedMessagesAreRefusedByAttribute(t *testing.T) {
	t.Parallel()
	set := func(k, v string) func(*events.Message) {
		return func(m *events.Message) { m.Header[k] = []string{v} }
	}
	for _, tc := range []struct {
		name string
		do   func(*events.Message)
		want string
		err  error
	}{
		{"no headers", func(m *events.Message) { m.Header = nil }, "ce-specversion", events.ErrMalformed},
		{"another specification", set("ce-specversion", "0.3"), "ce-specversion", events.ErrMalformed},
		{"no id", set("ce-id", ""), "ce-id", events.ErrMalformed},
		{"a time that is none", set("ce-time", "yesterday"), "ce-time", events.ErrMalformed},
		{"a sequence that is none", set("ce-sequence", "-1"), "ce-sequence", events.ErrMalformed},
		{"a sequence beyond counting", set("ce-sequence", strings.Repeat("9", 30)), "ce-sequence", events.ErrMalformed},
		{"a correlation that is not encoded", set("ce-correlationid", "%zz"), "ce-correlationid", events.ErrMalformed},
		{"commands that are no list", set("Sf-Commands", `{"id":1}`), "commands", events.ErrMalformed},
		{"a type of nobody's", set("ce-type", "com.example.thing.v1"), "com.example.thing.v1", events.ErrUnknownType},
		{"a type of a later version", set("ce-type", "io.spotferry.job.submitted.v2"), "v2", events.ErrUnknownType},
		{"no type", set("ce-type", ""), "ce-type", events.ErrUnknownType},
		{"another type's subject", func(m *events.Message) { m.Subject = "sf.v1.job.acme.j.ended" }, "subject", events.ErrMalformed},
		{"another family's subject", func(m *events.Message) { m.Subject = "sf.v1.lease.acme.j.submitted" }, "subject", events.ErrMalformed},
		{"another root", func(m *events.Message) { m.Subject = "xx.v1.job.acme.j.submitted" }, "subject", events.ErrMalformed},
		{"a subject with wildcards", func(m *events.Message) { m.Subject = "sf.v1.job.*.j.submitted" }, "subject", events.ErrMalformed},
		{"no subject", func(m *events.Message) { m.Subject = "" }, "subject", events.ErrMalformed},
		{"no body", func(m *events.Message) { m.Body = nil }, "submitted", events.ErrMalformed},
		{"half a body", func(m *events.Message) { m.Body = m.Body[:len(m.Body)/2] }, "submitted", events.ErrMalformed},
		{"a body that is a list", func(m *events.Message) { m.Body = []byte("[]") }, "submitted", events.ErrMalformed},
		{"a body of two megabytes", func(m *events.Message) { m.Body = bytes.Repeat([]byte(" "), 2<<20) }, "2097152 bytes", events.ErrMalformed},
		{"10000 brackets", func(m *events.Message) { m.Body = []byte(`{"spec":` + strings.Repeat("[", 100_000)) }, "submitted", events.ErrMalformed},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			m := clone(encode(t, eventstest.Sample(events.Table[0])))
			tc.do(&m)
			if _, err := events.Decode(m); !errors.Is(err, tc.err) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v, want %v with %q", err, tc.err, tc.want)
			}
		})
	}
}

func TestEnvelopesOfAnyTextSurvive(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		e := eventstest.Sample(rapid.SampledFrom(events.Table).Draw(t, "type"))
		e.Correlation = rapid.String().Draw(t, "correlation")
		e.Attribution.Team = rapid.StringMatching(`\PC*`).Draw(t, "team")
		e.Attribution.Labels = rapid.MapOf(rapid.StringMatching(`\PC+`), rapid.StringMatching(`\PC*`)).Draw(t, "labels")
		if len(e.Attribution.Labels) == 0 {
			e.Attribution.Labels = nil
		}
		e.Time = time.Unix(rapid.Int64Range(-6e10, 2e11).Draw(t, "s"), rapid.Int64Range(0, 999_999_999).Draw(t, "ns")).UTC()
		if e.Sequence > 0 {
			e.Sequence = rapid.Uint64Min(1).Draw(t, "sequence")
		}
		m, err := events.Encode(e)
		if err != nil {
			t.Fatal(err)
		}
		for k, v := range m.Header {
			if strings.HasPrefix(k, "ce-") && strings.ContainsFunc(v[0], func(r rune) bool { return r < ' ' || r > '~' }) {
				t.Fatalf("header %s is %q, which a NATS header may not carry", k, v[0])
			}
		}
		got, err := events.Decode(m)
		if err != nil || !reflect.DeepEqual(told(got), e) {
			t.Fatalf("read\n%+v\n%v\nwritten\n%+v", got, err, e)
		}
	})
}

func FuzzDecode(f *testing.F) {
	for _, row := range events.Table {
		m, err := events.Encode(eventstest.Sample(row))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(m.Subject, m.Get("ce-type"), m.Get("ce-time"), m.Get("ce-sequence"), `[{"id":"x","kind":"tell"}]`, m.Body)
	}
	f.Add("", "", "", "", "", []byte(nil))
	f.Fuzz(func(t *testing.T, subject, typ, at, sequence, commands string, body []byte) {
		m := events.Message{Subject: subject, Body: body, Header: map[string][]string{
			"ce-specversion": {"1.0"}, "ce-id": {"x-1"}, "ce-type": {typ}, "ce-time": {at}, "ce-sequence": {sequence}, "Sf-Commands": {commands},
		}}
		e, err := events.Decode(m)
		if err != nil {
			if !errors.Is(err, events.ErrMalformed) && !errors.Is(err, events.ErrUnknownType) {
				t.Fatalf("refused without a kind: %v", err)
			}
			return
		}
		again, err := events.Encode(e)
		if err != nil {
			return // a time beyond the year 9999 can be read but not written
		}
		back, err := events.Decode(again)
		if err != nil {
			t.Fatalf("what was read cannot be read again: %v", err)
		}
		if last, err := events.Encode(back); err != nil || !reflect.DeepEqual(last, again) {
			t.Fatalf("written twice:\n%s\n%s", again.Body, last.Body)
		}
	})
}
