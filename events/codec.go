package events

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// Header names of CloudEvents 1.0, binary mode over NATS, and our own.
const (
	headerID          = "ce-id"
	headerSource      = "ce-source"
	headerSpec        = "ce-specversion"
	headerType        = "ce-type"
	headerTime        = "ce-time"
	headerSubject     = "ce-subject"
	headerSchema      = "ce-dataschema"
	headerContent     = "ce-datacontenttype"
	headerSequence    = "ce-sequence"
	headerPartition   = "ce-partitionkey"
	headerCorrelation = "ce-correlationid"
	headerCausation   = "ce-causationid"
	headerPrev        = "ce-prevhash"
	headerTrace       = "ce-traceparent"
	headerCommands    = "Sf-Commands"
	// HeaderMsgID is the broker's deduplication key: the event id and a hash of the content.
	HeaderMsgID = "Nats-Msg-Id"
)

// maxBody bounds what the decoder looks at. The bus allows 1 MiB.
const maxBody = 1 << 20

// ErrMalformed is wrapped by every refusal of Decode, which names the attribute or field.
var ErrMalformed = errors.New("malformed event")

// Message is an event as it travels: a subject, headers, a JSON body.
type Message struct {
	Subject string
	Header  map[string][]string
	Body    []byte
}

// Get returns the first value of a header, or "".
func (m Message) Get(key string) string {
	if v := m.Header[key]; len(v) > 0 {
		return v[0]
	}
	return ""
}

// body is the part of the JSON object that every event shares; the fact's own
// fields stand beside it in the same object.
type body struct {
	Attribution
	Finality Finality `json:"finality"`
}

// Encode writes e in CloudEvents binary mode. The same event always gives the same bytes.
func Encode(e Event) (Message, error) {
	t, ok := typeOf(e.Fact)
	if !ok {
		return Message{}, fmt.Errorf("encoding %s: %T is in no row of the type table", e.ID, e.Fact)
	}
	subject, err := t.subjectOf(e)
	if err != nil {
		return Message{}, fmt.Errorf("encoding %s: %w", e.ID, err)
	}
	data, err := joinObjects(body{e.Attribution, e.Finality}, e.Fact)
	if err != nil {
		return Message{}, fmt.Errorf("encoding %s: %w", e.ID, err)
	}
	m := Message{Subject: subject, Body: data, Header: map[string][]string{}}
	set := func(k, v string) {
		if v != "" {
			m.Header[k] = []string{v}
		}
	}
	set(headerSpec, "1.0")
	set(headerID, string(e.ID))
	set(headerSource, e.Source)
	set(headerType, t.Name())
	set(headerTime, e.Time.UTC().Format(time.RFC3339Nano))
	set(headerSubject, escape(e.Aggregate.Key()))
	set(headerSchema, t.SchemaURI())
	set(headerContent, "application/json")
	if e.Sequence > 0 {
		set(headerSequence, fmt.Sprintf("%020d", e.Sequence))
	}
	set(headerPartition, escape(e.Aggregate.Key()))
	set(headerCorrelation, escape(e.Correlation))
	set(headerCausation, string(e.Causation))
	set(headerPrev, e.Prev)
	set(headerTrace, e.Trace)
	if len(e.Commands) > 0 {
		cmds, err := json.Marshal(e.Commands)
		if err != nil {
			return Message{}, fmt.Errorf("encoding commands of %s: %w", e.ID, err)
		}
		set(headerCommands, string(cmds))
	}
	set(HeaderMsgID, string(e.ID)+"."+m.hash()[:16])
	return m, nil
}

// joinObjects marshals two structs as one JSON object, a's fields first.
func joinObjects(a, b any) ([]byte, error) {
	x, err := json.Marshal(a)
	if err != nil {
		return nil, err
	}
	y, err := json.Marshal(b)
	if err != nil {
		return nil, err
	}
	if bytes.Equal(y, []byte("{}")) {
		return x, nil
	}
	return append(append(x[:len(x)-1], ','), y[1:]...), nil
}

// Decode reads what Encode wrote, by this version or a later one: unknown
// fields and headers are skipped, a known field of another type is refused by
// name, an unknown type is refused as ErrUnknownType. It never panics, whatever
// the bytes.
func Decode(m Message) (Event, error) {
	if len(m.Body) > maxBody {
		return Event{}, fmt.Errorf("%w: body has %d bytes, at most %d are read", ErrMalformed, len(m.Body), maxBody)
	}
	if v := m.Get(headerSpec); v != "1.0" {
		return Event{}, fmt.Errorf("%w: ce-specversion is %q, want 1.0", ErrMalformed, v)
	}
	t, err := typeNamed(m.Get(headerType))
	if err != nil {
		return Event{}, err
	}
	e := Event{
		ID: EventID(m.Get(headerID)), Source: m.Get(headerSource), Causation: EventID(m.Get(headerCausation)),
		Prev: m.Get(headerPrev), Trace: m.Get(headerTrace),
	}
	if e.ID == "" {
		return Event{}, fmt.Errorf("%w: ce-id is missing", ErrMalformed)
	}
	if e.Correlation, err = unescape(headerCorrelation, m.Get(headerCorrelation)); err != nil {
		return Event{}, err
	}
	if e.Time, err = time.Parse(time.RFC3339Nano, m.Get(headerTime)); err != nil {
		return Event{}, fmt.Errorf("%w: ce-time is %q, want RFC 3339", ErrMalformed, m.Get(headerTime))
	}
	if s := m.Get(headerSequence); s != "" {
		if e.Sequence, err = strconv.ParseUint(s, 10, 64); err != nil {
			return Event{}, fmt.Errorf("%w: ce-sequence is %q, want a number", ErrMalformed, s)
		}
	}
	if e.Aggregate, err = t.aggregateOf(m.Subject); err != nil {
		return Event{}, err
	}
	var b body
	if err := unmarshal(m.Body, &b); err != nil {
		return Event{}, fmt.Errorf("%s: %w", t.Name(), err)
	}
	e.Attribution, e.Finality = b.Attribution, b.Finality
	if e.Fact, err = t.decode(m.Body); err != nil {
		return Event{}, fmt.Errorf("%s: %w", t.Name(), err)
	}
	if s := m.Get(headerCommands); s != "" {
		if err := unmarshal([]byte(s), &e.Commands); err != nil {
			return Event{}, fmt.Errorf("%s commands: %w", t.Name(), err)
		}
	}
	e.read = m.hash()
	return e, nil
}

// unmarshal names the field when a value has the wrong type.
func unmarshal(b []byte, into any) error {
	err := json.Unmarshal(b, into)
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		field := strings.TrimPrefix(wrong.Field, "Attribution.") // embedded: no object of its own
		return fmt.Errorf("%w: field %q holds a %s, want %s", ErrMalformed, field, wrong.Value, wrong.Type)
	}
	if err != nil {
		if field := blame(b, reflect.TypeOf(into).Elem()); field != "" {
			return fmt.Errorf("%w: field %q: %w", ErrMalformed, field, err)
		}
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return nil
}

// escape percent-encodes what the NATS binding of CloudEvents may not carry in a header.
func escape(s string) string {
	return strings.ReplaceAll(url.QueryEscape(s), "+", "%20")
}

func unescape(header, s string) (string, error) {
	v, err := url.QueryUnescape(s)
	if err != nil {
		return "", fmt.Errorf("%w: %s is %q, want percent-encoding", ErrMalformed, header, s)
	}
	return v, nil
}
