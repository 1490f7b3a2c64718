package azure

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/bidder/provider/wire"
)

// answer is a refusal in Azure's words.
type answer struct {
	status int
	code   string
	text   string
	wait   time.Duration // Retry-After
	late   bool          // of an operation that was accepted and has failed
}

// meaning is what a code says, and what it is said of.
type meaning struct {
	kind  provider.Kind
	scope string
}

// meanings has every code in lower case.
var meanings = map[string]meaning{
	"skunotavailable":                           {provider.NoCapacity, "pool"},
	"allocationfailed":                          {provider.NoCapacity, "pool"},
	"zonalallocationfailed":                     {provider.NoCapacity, "pool"},
	"overconstrainedallocationrequest":          {provider.NoCapacity, "pool"},
	"overconstrainedzonalallocationrequest":     {provider.NoCapacity, "pool"},
	"spotpricegreaterthanprovidedmaxprice":      {provider.PriceTooLow, "pool"},
	"quotaexceeded":                             {provider.Quota, "region"},
	"operationnotallowed":                       {provider.Invalid, "seller"}, // quota, if the text says so
	"toomanyrequests":                           {provider.Throttled, "account"},
	"authorizationfailed":                       {provider.Auth, "account"},
	"linkedauthorizationfailed":                 {provider.Auth, "account"},
	"authenticationfailed":                      {provider.Auth, "account"},
	"invalidauthenticationtoken":                {provider.Auth, "account"},
	"expiredauthenticationtoken":                {provider.Auth, "account"},
	"readonlydisabledsubscription":              {provider.Auth, "account"},
	"subscriptionnotfound":                      {provider.Auth, "account"},
	"azurespotfeaturenotenabledforsubscription": {provider.Auth, "account"},
	"maxpricevalueinvalid":                      {provider.Invalid, "seller"},
	"maxpricechangenotallowedforallocatedvms":   {provider.Invalid, "seller"},
	"invalidparameter":                          {provider.Invalid, "seller"},
	"azurespotisnotsupportedforthisvmsize":      {provider.Invalid, "seller"},
	"resourcegroupnotfound":                     {provider.NotFound, "seller"},
	"resourcenotfound":                          {provider.NotFound, "seller"},
	"notfound":                                  {provider.NotFound, "seller"},
	"preconditionfailed":                        {provider.Conflict, "pool"},
	"conflict":                                  {provider.Conflict, "pool"},
	"internalservererror":                       {provider.Transient, "seller"},
	"retryableerror":                            {provider.Transient, "seller"},
	"serviceunavailable":                        {provider.Transient, "seller"},
	"operationpreempted":                        {provider.Transient, "seller"},
	"anotheroperationinprogress":                {provider.Transient, "seller"},
}

// classify says what an answer means. The code decides, then the status. What is not
// known is Transient for reads, and an unknown outcome for a launch; so is every error of
// Azure's own side on a launch, unless it is an operation's, which then has failed.
func classify(op string, a answer) *provider.Error {
	e := &provider.Error{Kind: provider.Transient, Op: op, Scope: "seller", Code: wire.Clip(a.code), Message: wire.Clip(a.text), RetryAfter: a.wait}
	launch := op == provider.OpLaunch
	if launch && !a.late {
		e.Kind = provider.UnknownOutcome
	}
	if e.Code == "" && a.status > 0 {
		e.Code = strconv.Itoa(a.status)
	}
	if m, ok := meanings[strings.ToLower(a.code)]; ok {
		e.Kind, e.Scope = m.kind, m.scope
	} else if m, ok := byStatus(a.status); ok && !a.late {
		e.Kind, e.Scope = m.kind, m.scope
	}
	switch {
	case strings.EqualFold(a.code, "OperationNotAllowed") && strings.Contains(strings.ToLower(a.text), "quota"):
		e.Kind, e.Scope = provider.Quota, "region"
	case launch && !a.late && a.status >= 500 && e.Kind == provider.Transient:
		e.Kind = provider.UnknownOutcome
	case launch && e.Kind == provider.NotFound: // something of ours that is named wrongly
		e.Kind = provider.Invalid
	}
	e.MaybeCreated = launch && e.Kind == provider.UnknownOutcome
	return e
}

func byStatus(status int) (meaning, bool) {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return meaning{provider.Auth, "account"}, true
	case http.StatusTooManyRequests:
		return meaning{provider.Throttled, "account"}, true
	case http.StatusConflict, http.StatusPreconditionFailed:
		return meaning{provider.Conflict, "pool"}, true
	case http.StatusNotFound, http.StatusGone:
		return meaning{provider.NotFound, "pool"}, true
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge:
		return meaning{provider.Invalid, "seller"}, true
	}
	return meaning{}, false
}

// failed is the error of one call.
func failed(op string, sent bool, err error) *provider.Error {
	if e, ok := errors.AsType[*azcore.ResponseError](err); ok && e.StatusCode >= 400 {
		return classify(op, told(e))
	}
	if e, ok := errors.AsType[*azidentity.AuthenticationFailedError](err); ok && !sent &&
		(e.RawResponse == nil || e.RawResponse.StatusCode < 500) {
		return &provider.Error{Kind: provider.Auth, Op: op, Scope: "account", Code: "token", Message: wire.Clip(err.Error())}
	}
	e := provider.Unanswered(op, plain(err))
	e.Scope = "seller"
	if !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
		e.Code = "unreadable"
	}
	if !sent {
		e.Kind, e.MaybeCreated, e.Code = provider.Transient, false, "unreachable"
	}
	return e
}

// plain is an error without the answer that it quotes: a machine's user data may stand there.
func plain(err error) error {
	if e, ok := errors.AsType[*azcore.ResponseError](err); ok {
		return errors.New("status " + strconv.Itoa(e.StatusCode))
	}
	return err
}

// refusal is how Azure says no, in an answer and in an operation.
type refusal struct {
	Status string `json:"status"`
	Error  struct {
		Code    string `json:"code"`
		Message string `json:"message"`
		Details []struct {
			Code    string `json:"code"`
			Message string `json:"message"`
		} `json:"details"`
	} `json:"error"`
	Properties struct {
		ProvisioningState string `json:"provisioningState"`
	} `json:"properties"`
}

// words are the code and the text: of a wrapper the first thing inside that has a meaning.
func (r refusal) words() (code, text string) {
	code, text = r.Error.Code, r.Error.Message
	if _, known := meanings[strings.ToLower(code)]; !known || strings.EqualFold(code, "Conflict") {
		for _, d := range r.Error.Details {
			if _, known := meanings[strings.ToLower(d.Code)]; known {
				return d.Code, d.Message
			}
		}
	}
	return code, text
}

// told is a refusal as HTTP brought it.
func told(e *azcore.ResponseError) answer {
	a := answer{status: e.StatusCode, code: e.ErrorCode}
	if e.RawResponse == nil {
		return a
	}
	a.wait = retryAfter(e.RawResponse)
	var r refusal
	if body, err := io.ReadAll(e.RawResponse.Body); err == nil && json.Unmarshal(body, &r) == nil {
		if code, said := r.words(); code != "" {
			a.code, a.text = code, said
		}
	}
	return a
}

// retryAfter is how long an answer asks to be left in peace, 0 if it does not.
func retryAfter(r *http.Response) time.Duration {
	s, err := strconv.Atoi(r.Header.Get("Retry-After"))
	if err != nil || s <= 0 {
		return 0
	}
	return time.Duration(min(s, int(provider.MaxRetryAfter/time.Second))) * time.Second
}
