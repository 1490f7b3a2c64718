package runpod

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/bidder/provider/wire"
)

// problem is an error of the REST API, or the first of the GraphQL API's.
type problem struct {
	Title   wire.Text `json:"title"`
	Detail  wire.Text `json:"detail"`
	Message wire.Text `json:"message"`
	Error   wire.Text `json:"error"`
}

// problemOf reads an error's body. One that is no JSON is its own detail.
func problemOf(body []byte) problem {
	var p problem
	if json.Unmarshal(body, &p) != nil {
		p = problem{Detail: wire.Text(wire.Excerpt(body))}
	}
	return p
}

func (p problem) words() string {
	var said []string
	for _, s := range []wire.Text{p.Title, p.Detail, p.Message, p.Error} {
		if s != "" {
			said = append(said, wire.Excerpt([]byte(s)))
		}
	}
	return strings.Join(said, ": ")
}

// sign is something that RunPod says in its texts, and what it means.
type sign struct {
	said  string
	kind  provider.Kind
	scope string
}

func signs() []sign {
	return []sign{
		{"does not have the resources to deploy your pod", provider.NoCapacity, "pool"},
		{"no longer any instances available", provider.NoCapacity, "pool"},
		{"pod not found to terminate", provider.NotFound, ""},
	}
}

// graphSigns are what the GraphQL API says, which has no statuses.
func graphSigns() []sign {
	return []sign{
		{"unauthorized", provider.Auth, "account"},
		{"unauthenticated", provider.Auth, "account"},
		{"forbidden", provider.Auth, "account"},
		{"balance", provider.Auth, "account"},
		{"graphql_validation_failed", provider.Invalid, ""},
		{"bad_user_input", provider.Invalid, ""},
	}
}

// unexplained is the code of a refusal that means no capacity or a wrong request.
const unexplained = "400 unexplained"

// classify says what a refusal means: by its text, then by its status. Status 200 is the GraphQL API's.
func classify(op string, status int, p problem) *provider.Error {
	e := &provider.Error{Op: op, Code: strconv.Itoa(status), Message: p.words()}
	text := strings.ToLower(e.Message)
	known := signs()
	if status == http.StatusOK {
		known = append(known, graphSigns()...)
		e.Code = "graphql"
	}
	e.Kind, e.Scope = byStatus(op, status)
	for _, s := range known {
		if strings.Contains(text, s.said) {
			e.Kind, e.Scope = s.kind, s.scope
			return e
		}
	}
	if status == http.StatusBadRequest && op == provider.OpLaunch {
		e.Code = unexplained
	}
	e.MaybeCreated = e.Kind == provider.UnknownOutcome
	return e
}

// byStatus says what a status means where no text tells. What is not known may have
// made a pod, if that was asked for.
func byStatus(op string, status int) (provider.Kind, string) {
	launch := op == provider.OpLaunch
	switch {
	case status == http.StatusTooManyRequests:
		return provider.Throttled, "seller"
	case status == http.StatusUnauthorized, status == http.StatusPaymentRequired:
		return provider.Auth, "account"
	case status == http.StatusForbidden && launch:
		return provider.NoCapacity, "pool" // not for us: the next
	case status == http.StatusForbidden:
		return provider.Auth, "account"
	case status == http.StatusBadRequest && launch:
		return provider.NoCapacity, "pool" // until all of them say so
	case status == http.StatusBadRequest, status == http.StatusUnprocessableEntity, status == http.StatusMethodNotAllowed:
		return provider.Invalid, ""
	case status == http.StatusNotFound && launch:
		return provider.OfferGone, "pool"
	case status == http.StatusNotFound, status == http.StatusGone:
		return provider.NotFound, ""
	case status == http.StatusConflict:
		return provider.Conflict, ""
	case launch:
		return provider.UnknownOutcome, "seller"
	}
	return provider.Transient, "seller"
}

// enough is how many pools that answer 400 show that it is the request, however many more there are.
const enough = 5

// verdict says what a 400 without a reason means, once so many of so many pools have
// answered so without one success between: when all have, it is the request.
func verdict(refused, offered int) provider.Kind {
	if refused >= min(max(offered, 1), enough) {
		return provider.Invalid
	}
	return provider.NoCapacity
}
