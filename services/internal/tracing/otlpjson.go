package tracing

import (
	"encoding/json"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
)

// JSON returns spans as one OTLP ExportTraceServiceRequest in its JSON form, which
// trace viewers open and collectors take. The same spans give the same bytes.
func JSON(service, version string, spans []Span) ([]byte, error) {
	return json.MarshalIndent(request(snapshot(spans, describe(service, version))), "", "  ")
}

// The names of OTLP's JSON form. Ids are hex, 64-bit numbers are strings.
type (
	jsonRequest struct {
		ResourceSpans []jsonResourceSpans `json:"resourceSpans"`
	}
	jsonResourceSpans struct {
		Resource   jsonResource     `json:"resource"`
		ScopeSpans []jsonScopeSpans `json:"scopeSpans"`
	}
	jsonResource struct {
		Attributes []jsonAttribute `json:"attributes"`
	}
	jsonScopeSpans struct {
		Scope jsonScope  `json:"scope"`
		Spans []jsonSpan `json:"spans"`
	}
	jsonScope struct {
		Name string `json:"name"`
	}
	jsonSpan struct {
		TraceID    string          `json:"traceId"`
		SpanID     string          `json:"spanId"`
		Parent     string          `json:"parentSpanId,omitempty"`
		Name       string          `json:"name"`
		Kind       int             `json:"kind"`
		Start      string          `json:"startTimeUnixNano"`
		End        string          `json:"endTimeUnixNano"`
		Attributes []jsonAttribute `json:"attributes,omitempty"`
		Events     []jsonEvent     `json:"events,omitempty"`
		Status     *jsonStatus     `json:"status,omitempty"`
	}
	jsonEvent struct {
		At         string          `json:"timeUnixNano"`
		Name       string          `json:"name"`
		Attributes []jsonAttribute `json:"attributes,omitempty"`
	}
	jsonStatus struct {
		Message string `json:"message,omitempty"`
		Code    int    `json:"code"`
	}
	jsonAttribute struct {
		Key   string         `json:"key"`
		Value map[string]any `json:"value"`
	}
)

// request groups spans by where they come from, in the order in which each is first met.
func request(spans []sdk.ReadOnlySpan) jsonRequest {
	r := jsonRequest{ResourceSpans: []jsonResourceSpans{}}
	at := map[string]int{}
	for _, s := range spans {
		key := s.Resource().String() + "\x00" + s.InstrumentationScope().Name
		i, seen := at[key]
		if !seen {
			i = len(r.ResourceSpans)
			at[key] = i
			r.ResourceSpans = append(r.ResourceSpans, jsonResourceSpans{
				Resource:   jsonResource{attributes(s.Resource().Attributes())},
				ScopeSpans: []jsonScopeSpans{{Scope: jsonScope{s.InstrumentationScope().Name}}},
			})
		}
		to := &r.ResourceSpans[i].ScopeSpans[0]
		to.Spans = append(to.Spans, span(s))
	}
	return r
}

func span(s sdk.ReadOnlySpan) jsonSpan {
	j := jsonSpan{
		TraceID: s.SpanContext().TraceID().String(), SpanID: s.SpanContext().SpanID().String(), Name: s.Name(),
		Kind:  int(s.SpanKind()), // the API counts as OTLP does
		Start: nanos(s.StartTime()), End: nanos(s.EndTime()), Attributes: attributes(s.Attributes()),
	}
	if p := s.Parent(); p.SpanID().IsValid() {
		j.Parent = p.SpanID().String()
	}
	for _, e := range s.Events() {
		j.Events = append(j.Events, jsonEvent{nanos(e.Time), e.Name, attributes(e.Attributes)})
	}
	if st := s.Status(); st.Code != codes.Unset {
		code := 1 // OTLP: OK
		if st.Code == codes.Error {
			code = 2
		}
		j.Status = &jsonStatus{st.Description, code}
	}
	return j
}

func nanos(t time.Time) string { return strconv.FormatInt(t.UnixNano(), 10) }

func attributes(kvs []attribute.KeyValue) []jsonAttribute {
	out := make([]jsonAttribute, 0, len(kvs))
	for _, kv := range kvs {
		v := map[string]any{}
		switch kv.Value.Type() {
		case attribute.BOOL:
			v["boolValue"] = kv.Value.AsBool()
		case attribute.INT64:
			v["intValue"] = strconv.FormatInt(kv.Value.AsInt64(), 10)
		case attribute.FLOAT64:
			v["doubleValue"] = kv.Value.AsFloat64()
		default:
			v["stringValue"] = kv.Value.String()
		}
		out = append(out, jsonAttribute{string(kv.Key), v})
	}
	return out
}
