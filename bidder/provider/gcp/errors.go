package gcp

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"cloud.google.com/go/auth"
	"google.golang.org/api/compute/v1"
	"google.golang.org/api/googleapi"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/bidder/provider/wire"
)

// answer is a refusal in Google's words.
type answer struct {
	status int      // of HTTP; of an operation, what it says for one
	codes  []string // reasons, or an operation's codes, the first told first
	text   string
	wait   time.Duration // Retry-After
	late   bool          // of an operation that was accepted and has failed
}

// meaning is what a code says, and what it is said of.
type meaning struct {
	kind  provider.Kind
	scope string
}

// meanings has every code by its letters alone: RATE_LIMIT_EXCEEDED and
// rateLimitExceeded are the same.
var meanings = map[string]meaning{
	"zoneresourcepoolexhausted":         {provider.NoCapacity, "pool"},
	"regionresourcepoolexhausted":       {provider.NoCapacity, "pool"},
	"resourcepoolexhausted":             {provider.NoCapacity, "pool"},
	"gpustockout":                       {provider.NoCapacity, "pool"},
	"insufficientcapacity":              {provider.NoCapacity, "pool"},
	"unsupportedoperation":              {provider.NoCapacity, "pool"}, // preempted while it was made
	"quotaexceeded":                     {provider.Quota, "region"},
	"ratelimitexceeded":                 {provider.Throttled, "account"},
	"userratelimitexceeded":             {provider.Throttled, "account"},
	"resourceoperationrateexceeded":     {provider.Throttled, "account"},
	"concurrentoperationsquotaexceeded": {provider.Throttled, "account"},
	"iampermissiondenied":               {provider.Auth, "account"},
	"permissionsdenied":                 {provider.Auth, "account"},
	"forbidden":                         {provider.Auth, "account"},
	"autherror":                         {provider.Auth, "account"},
	"accessnotconfigured":               {provider.Auth, "account"},
	"billingdisabled":                   {provider.Auth, "account"},
	"servicedisabled":                   {provider.Auth, "account"},
	"invalidfieldvalue":                 {provider.Invalid, "seller"},
	"invalidusage":                      {provider.Invalid, "seller"},
	"invalidparameter":                  {provider.Invalid, "seller"},
	"invalid":                           {provider.Invalid, "seller"},
	"badrequest":                        {provider.Invalid, "seller"},
	"vpcnotfound":                       {provider.Invalid, "seller"},
	"resourcenotready":                  {provider.Transient, "seller"},
	"resourceinusebyanotherresource":    {provider.Transient, "seller"},
	"alreadyexists":                     {provider.Conflict, "pool"},
	"resourcealreadyexists":             {provider.Conflict, "pool"},
	"internalerror":                     {provider.Transient, "seller"},
	"backenderror":                      {provider.Transient, "seller"},
	"serviceunavailable":                {provider.Transient, "seller"},
}

// letters is a code without its spelling, and without the note that details follow.
func letters(code string) string {
	s := strings.ToLower(strings.NewReplacer("_", "", "-", "", " ", "").Replace(code))
	return strings.TrimSuffix(s, "withdetails")
}

// allRegions is the quota that a whole project has.
const allRegions = "GPUS_ALL_REGIONS"

// classify says what an answer means. The code decides, then the status. What is not
// known is Transient for reads, and an unknown outcome for a launch: so is every
// error of Google's own side on a launch, since the machine may be on its way.
func classify(op string, a answer) *provider.Error {
	e := &provider.Error{Kind: provider.Transient, Op: op, Scope: "seller", Message: wire.Clip(a.text), RetryAfter: a.wait}
	if op == provider.OpLaunch {
		e.Kind = provider.UnknownOutcome
	}
	if len(a.codes) > 0 {
		e.Code = wire.Clip(a.codes[0])
	} else if a.status > 0 {
		e.Code = strconv.Itoa(a.status)
	}
	for _, code := range a.codes {
		if m, ok := meanings[letters(code)]; ok {
			e.Kind, e.Scope, e.Code = m.kind, m.scope, code
			return special(e, a)
		}
	}
	if !a.late {
		if m, ok := byStatus(op, a.status); ok {
			e.Kind, e.Scope = m.kind, m.scope
		}
	}
	return special(e, a)
}

func byStatus(op string, status int) (meaning, bool) {
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return meaning{provider.Auth, "account"}, true
	case status == http.StatusTooManyRequests:
		return meaning{provider.Throttled, "account"}, true
	case status == http.StatusConflict:
		return meaning{provider.Conflict, "pool"}, true
	case status == http.StatusNotFound, status == http.StatusGone:
		return meaning{provider.NotFound, "pool"}, true
	case status == http.StatusBadRequest, status == http.StatusPreconditionFailed, status == http.StatusRequestEntityTooLarge:
		return meaning{provider.Invalid, "seller"}, true
	}
	return meaning{}, false
}

// special looks at what code and status alone do not tell.
func special(e *provider.Error, a answer) *provider.Error {
	launch := e.Op == provider.OpLaunch
	switch {
	case e.Kind == provider.Quota && strings.Contains(letters(a.text), letters(allRegions)):
		e.Scope = "account"
	case strings.Contains(a.text, "access is unauthorized"):
		e.Kind, e.Scope = provider.Auth, "zone"
	case launch && !a.late && a.status >= 500 && e.Kind == provider.Transient:
		e.Kind = provider.UnknownOutcome
	case launch && e.Kind == provider.NotFound:
		// A type that is not sold there, or something of ours that is named wrongly.
		e.Kind, e.Scope = provider.Invalid, "seller"
		if strings.Contains(a.text, "/machineTypes/") || strings.Contains(a.text, "/acceleratorTypes/") {
			e.Kind, e.Scope = provider.OfferGone, "pool"
		}
	}
	e.MaybeCreated = launch && e.Kind == provider.UnknownOutcome
	return e
}

// failed is the error of one call.
func failed(op string, sent bool, err error) *provider.Error {
	if e, ok := errors.AsType[*googleapi.Error](err); ok {
		return classify(op, told(e))
	}
	if e, ok := errors.AsType[*auth.Error](err); ok && e.Response != nil && e.Response.StatusCode < 500 {
		return &provider.Error{Kind: provider.Auth, Op: op, Scope: "account", Code: "token", Message: wire.Clip(err.Error())}
	}
	e := provider.Unanswered(op, err)
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
	case errors.Is(err, wire.ErrTooLong), sent:
		e.Code = "unreadable"
	}
	if !sent {
		e.Kind, e.MaybeCreated = provider.Transient, false
	}
	return e
}

// told is a refusal as HTTP brought it.
func told(e *googleapi.Error) answer {
	a := answer{status: e.Code, text: e.Message}
	for _, item := range e.Errors {
		if item.Reason != "" {
			a.codes = append(a.codes, item.Reason)
		}
	}
	for _, d := range e.Details {
		if m, ok := d.(map[string]any); ok {
			if reason, ok := m["reason"].(string); ok && reason != "" {
				a.codes = append(a.codes, reason)
			}
		}
	}
	if a.text == "" {
		a.text = e.Body
	}
	if s, err := strconv.Atoi(e.Header.Get("Retry-After")); err == nil && s > 0 {
		a.wait = time.Duration(min(s, int(provider.MaxRetryAfter/time.Second))) * time.Second
	}
	return a
}

// toldLate is why an operation has failed.
func toldLate(op *compute.Operation) answer {
	a := answer{status: int(op.HttpErrorStatusCode), text: op.HttpErrorMessage, late: true}
	if op.Error == nil {
		return a
	}
	for _, e := range op.Error.Errors {
		if e == nil {
			continue
		}
		a.codes = append(a.codes, e.Code)
		a.text = strings.TrimSpace(e.Message + " " + quotas(e))
	}
	return a
}

// quotas are the limits that an error names.
func quotas(e *compute.OperationErrorErrors) string {
	var all []string
	for _, d := range e.ErrorDetails {
		if d != nil && d.QuotaInfo != nil {
			all = append(all, d.QuotaInfo.LimitName, d.QuotaInfo.MetricName)
		}
	}
	return strings.Join(all, " ")
}
