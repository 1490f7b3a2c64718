package remote

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/events"
)

const (
	root           = "sf.provider."
	opCapabilities = "capabilities"

	headerCapabilities = "Sf-Capabilities" // on every answer: what the seller can do besides
	headerTimeout      = "Sf-Timeout-Ms"   // on a request: how long the caller waits; a duration, so that no clocks are compared
)

// Subject is where a seller is asked for op.
func Subject(seller, op string) string { return root + seller + "." + op }

// Requests. An operation without arguments sends an empty object.
type (
	launchRequest struct {
		Token string              `json:"token"`
		Spec  provider.LaunchSpec `json:"spec"`
	}
	instanceRequest struct {
		Instance events.InstanceID `json:"instance"`
	}
	rebidRequest struct {
		Instance events.InstanceID      `json:"instance"`
		Price    events.PerInstanceHour `json:"price"`
	}
)

// page is one message of an answer.
type page struct {
	Error *failure          `json:"error,omitempty"`
	Page  int               `json:"page"` // from 0
	Pages int               `json:"pages"`
	Items []json.RawMessage `json:"items,omitempty"`
	List  *listMeta         `json:"list,omitempty"`
}

type listMeta struct {
	Complete bool      `json:"complete"`
	At       time.Time `json:"at"`
}

// failure is a provider.Error as it travels.
type failure struct {
	Kind         string       `json:"kind"`
	Op           string       `json:"op"`
	Scope        string       `json:"scope,omitempty"`
	Pool         *events.Pool `json:"pool,omitempty"`
	RetryAfterMS int64        `json:"retry_after_ms,omitempty"`
	Code         string       `json:"code,omitempty"`
	Message      string       `json:"message,omitempty"`
	MaybeCreated bool         `json:"maybe_created,omitempty"`
}

// maxText bounds what a seller's words may take of a message.
const maxText = 2048

func failureOf(op string, err error) *failure {
	e, ok := errors.AsType[*provider.Error](provider.Classify(op, err))
	if !ok {
		return nil
	}
	text := e.Message
	if e.Err != nil {
		text = strings.TrimPrefix(text+": "+e.Err.Error(), ": ")
	}
	return &failure{
		Kind: e.Kind.String(), Op: e.Op, Scope: e.Scope, Pool: e.Pool, RetryAfterMS: roundUpMS(e.RetryAfter),
		Code: cut(e.Code), Message: cut(text), MaybeCreated: e.MaybeCreated,
	}
}

func roundUpMS(d time.Duration) int64 { return int64((d + time.Millisecond - 1) / time.Millisecond) }

func cut(s string) string {
	if len(s) <= maxText {
		return s
	}
	return strings.ToValidUTF8(s[:maxText], "") + "…"
}

// err is the failure as the caller sees it. Op is the caller's own: an answer cannot say otherwise.
func (f *failure) err(op string) error {
	ms := min(max(f.RetryAfterMS, 0), math.MaxInt64/int64(time.Millisecond))
	return provider.Classify(op, &provider.Error{
		Kind: provider.ParseKind(f.Kind), Op: op, Scope: f.Scope, Pool: f.Pool,
		RetryAfter: time.Duration(ms) * time.Millisecond,
		Code:       f.Code, Message: f.Message, MaybeCreated: f.MaybeCreated,
	})
}

// decode reads a request and names the field that is wrong.
func decode(body []byte, into any) error {
	err := json.Unmarshal(body, into)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Errorf("field %q holds a %s, want %s", wrong.Field, wrong.Value, wrong.Type)
	}
	if err != nil {
		return fmt.Errorf("the request is not JSON: %w", err)
	}
	return nil
}

func capabilityNames(c provider.Capabilities) string {
	var names []string
	for _, n := range []struct {
		has  bool
		name string
	}{{c.Rebid, "rebid"}, {c.Meter, "meter"}, {c.Notices, "notices"}} {
		if n.has {
			names = append(names, n.name)
		}
	}
	return strings.Join(names, ",")
}

func parseCapabilities(s string) provider.Capabilities {
	var c provider.Capabilities
	for name := range strings.SplitSeq(s, ",") {
		switch name {
		case "rebid":
			c.Rebid = true
		case "meter":
			c.Meter = true
		case "notices":
			c.Notices = true
		}
	}
	return c
}
