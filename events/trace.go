package events

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// TraceID and SpanID are W3C trace context ids. Those of a failover are derived, like every
// other id: whoever knows the job knows its trace, so that no restart can lose it.
type (
	// TraceID names one trace.
	TraceID [16]byte
	// SpanID names one span of a trace.
	SpanID [8]byte
)

// FailoverTrace returns the id of the trace of the failover that an event of the job began.
// The event is the first evidence of the record, so a move that was called off
// and the one that came later under the same number are two traces.
func FailoverTrace(first EventID) (t TraceID) {
	h := sha256.Sum256(append([]byte("spotferry failover\x00"), first...))
	copy(t[:], h[:])
	return t
}

// Trace returns the id of the failover's trace.
func (f Failover) Trace() TraceID {
	if len(f.Evidence) == 0 {
		return FailoverTrace(f.Decision) // no record of ours
	}
	return FailoverTrace(f.Evidence[0])
}

// Span returns the id of the trace's span of that name. The root's name is "failover".
func (t TraceID) Span(name string) (s SpanID) {
	h := sha256.Sum256(append(append(t[:len(t):len(t)], 0), name...))
	copy(s[:], h[:])
	return s
}

// RootSpan is the name of a failover's root span.
const RootSpan = "failover"

// LaunchSpan is the name from which the span id of a launch is derived.
func LaunchSpan(l LeaseID) string { return "launch " + string(l) }

// String is lower-case hex, as it travels.
func (t TraceID) String() string { return hex.EncodeToString(t[:]) }

// String is lower-case hex, as it travels.
func (s SpanID) String() string { return hex.EncodeToString(s[:]) }

// Traceparent writes a sampled W3C traceparent, version 00.
func Traceparent(t TraceID, s SpanID) string { return "00-" + t.String() + "-" + s.String() + "-01" }

// HeaderTraceparent is the NATS header in which a request carries its trace.
const HeaderTraceparent = "traceparent"

// ErrTraceparent is wrapped when a traceparent cannot be read.
var ErrTraceparent = errors.New("not a W3C traceparent")

// ParseTraceparent reads a traceparent of any version: of a later one, the fields that version 00 has.
func ParseTraceparent(s string) (t TraceID, span SpanID, err error) {
	f := strings.Split(s, "-")
	if len(f) < 4 || len(f[0]) != 2 || f[0] == "ff" || (f[0] == "00" && len(f) > 4) || len(f[3]) != 2 {
		return t, span, fmt.Errorf("%w: %.80q", ErrTraceparent, s)
	}
	var version, flags [1]byte
	for _, part := range []struct {
		into []byte
		from string
	}{{version[:], f[0]}, {t[:], f[1]}, {span[:], f[2]}, {flags[:], f[3]}} {
		if !hexInto(part.into, part.from) {
			return TraceID{}, SpanID{}, fmt.Errorf("%w: %.80q", ErrTraceparent, s)
		}
	}
	if t == (TraceID{}) || span == (SpanID{}) {
		return TraceID{}, SpanID{}, fmt.Errorf("%w: %.80q names nothing", ErrTraceparent, s)
	}
	return t, span, nil
}

// hexInto fills b from lower-case hex of exactly its length.
func hexInto(b []byte, s string) bool {
	if len(s) != 2*len(b) || s != strings.ToLower(s) {
		return false
	}
	_, err := hex.Decode(b, []byte(s))
	return err == nil
}
