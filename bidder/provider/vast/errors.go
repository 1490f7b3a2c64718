package vast

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/bidder/provider/wire"
)

// reply is what all answers may have in common. Where an error's words are differs
// from endpoint to endpoint, and some are no JSON at all.
type reply struct {
	Success  *bool       `json:"success"`
	Code     wire.Text   `json:"error"`
	Msg      wire.Text   `json:"msg"`
	Message  wire.Text   `json:"message"`
	Detail   wire.Text   `json:"detail"`
	Contract wire.Number `json:"new_contract"` // an instance, also beside an error
}

// readReply reads what it can: the error is of a body that is no such object, whose
// text is then the message.
func readReply(a wire.Answer) (reply, error) {
	var r reply
	err := json.Unmarshal(a.Body, &r)
	if err != nil {
		r = reply{Msg: wire.Text(wire.Excerpt(a.Body))}
	}
	return r, err
}

func (r reply) words() string {
	var said []string
	for _, s := range []wire.Text{r.Msg, r.Message, r.Detail} {
		if s != "" {
			said = append(said, wire.Excerpt([]byte(s)))
		}
	}
	return strings.Join(said, "; ")
}

// sign is something that Vast.ai says, as its code or in the text, and what it means.
type sign struct {
	said  string
	kind  provider.Kind
	scope string
}

// signs returns them all. The first that is found counts.
func signs() []sign {
	return []sign{
		{"no_such_ask", provider.OfferGone, "pool"},
		{"404/3603", provider.OfferGone, "pool"},
		{"410/3907", provider.OfferGone, "pool"},
		{"no_such_instance", provider.NotFound, ""},
		{"invalid_price", provider.PriceTooLow, "pool"},
		{"insufficient_credit", provider.Auth, "account"},
		{"insufficient credit", provider.Auth, "account"},
		{"auth_error", provider.Auth, "account"},
		{"invalid_args", provider.Invalid, ""},
	}
}

// classify says what a refusal means: by its code or its text, then by its status.
//
// A refused create that names an instance has left one, stopped and paid for: its
// bid lost a race.
func classify(op string, status int, r reply) *provider.Error {
	e := &provider.Error{Kind: byStatus(op, status), Op: op, Scope: "seller", Code: string(r.Code), Message: r.words()}
	if e.Code == "" {
		e.Code = strconv.Itoa(status)
	}
	if e.Kind == provider.Auth {
		e.Scope = "account"
	}
	s, told := signOf(r)
	if told && status != http.StatusTooManyRequests {
		e.Kind, e.Scope = s.kind, s.scope
	}
	if op == provider.OpLaunch && r.Contract.ID() != "" {
		e.MaybeCreated = true
		if !told {
			e.Kind, e.Scope = provider.NoCapacity, "pool"
		}
	}
	if e.Kind == provider.UnknownOutcome {
		e.MaybeCreated = true
	}
	return e
}

func signOf(r reply) (sign, bool) {
	text := strings.ToLower(string(r.Code) + " " + r.words())
	for _, s := range signs() {
		if strings.Contains(text, s.said) {
			return s, true
		}
	}
	return sign{}, false
}

// byStatus says what a status means where nothing else tells. What is not known may
// have made a machine, if that was asked for.
func byStatus(op string, status int) provider.Kind {
	launch := op == provider.OpLaunch
	switch {
	case status == http.StatusTooManyRequests:
		return provider.Throttled
	case status == http.StatusUnauthorized, status == http.StatusForbidden, status == http.StatusPaymentRequired:
		return provider.Auth
	case status == http.StatusBadRequest, status == http.StatusUnprocessableEntity, status == http.StatusMethodNotAllowed:
		return provider.Invalid
	case status == http.StatusNotFound, status == http.StatusGone:
		if launch {
			return provider.OfferGone
		}
		return provider.NotFound
	case launch:
		return provider.UnknownOutcome
	}
	return provider.Transient
}
