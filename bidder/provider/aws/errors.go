package aws

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"

	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/events"
)

// meaning is what a code of EC2 means to us and how far it reaches.
type meaning struct {
	kind  provider.Kind
	scope string
}

// codes are those that say something of their own. Others are judged by their
// family and status.
var codes = map[string]meaning{
	"InsufficientInstanceCapacity":         {provider.NoCapacity, "pool"},
	"UnfulfillableCapacity":                {provider.NoCapacity, "pool"},
	"InsufficientReservedInstanceCapacity": {provider.NoCapacity, "pool"},
	"InsufficientHostCapacity":             {provider.NoCapacity, "pool"},
	"InsufficientCapacity":                 {provider.NoCapacity, "pool"},
	"InsufficientVolumeCapacity":           {provider.NoCapacity, "zone"},
	"Unsupported":                          {provider.NoCapacity, "pool"}, // the type is not in this zone

	"SpotMaxPriceTooLow": {provider.PriceTooLow, "pool"},

	"MaxSpotInstanceCountExceeded":      {provider.Quota, "region"},
	"VcpuLimitExceeded":                 {provider.Quota, "region"},
	"InstanceLimitExceeded":             {provider.Quota, "region"},
	"VolumeLimitExceeded":               {provider.Quota, "region"},
	"MaxIOPSLimitExceeded":              {provider.Quota, "region"},
	"InsufficientFreeAddressesInSubnet": {provider.Quota, "zone"},

	"RequestLimitExceeded":     {provider.Throttled, "region"},
	"Throttling":               {provider.Throttled, "region"},
	"ThrottlingException":      {provider.Throttled, "region"},
	"RequestThrottled":         {provider.Throttled, "region"},
	"EC2ThrottledException":    {provider.Throttled, "region"},
	"TooManyRequestsException": {provider.Throttled, "region"},

	"AuthFailure":                 {provider.Auth, "region"}, // wrong keys, or a region that is not enabled
	"OptInRequired":               {provider.Auth, "region"},
	"UnauthorizedOperation":       {provider.Auth, "account"},
	"Blocked":                     {provider.Auth, "account"},
	"PendingVerification":         {provider.Auth, "account"},
	"AccessDenied":                {provider.Auth, "account"},
	"AccessDeniedException":       {provider.Auth, "account"},
	"ExpiredToken":                {provider.Auth, "account"},
	"ExpiredTokenException":       {provider.Auth, "account"},
	"InvalidClientTokenId":        {provider.Auth, "account"},
	"InvalidSecurity":             {provider.Auth, "account"},
	"MissingAuthenticationToken":  {provider.Auth, "account"},
	"RequestExpired":              {provider.Auth, "account"}, // our clock
	"SignatureDoesNotMatch":       {provider.Auth, "account"},
	"UnrecognizedClientException": {provider.Auth, "account"},

	"IdempotentParameterMismatch":  {provider.Conflict, "pool"},
	"IdempotentInstanceTerminated": {provider.Conflict, "pool"},

	"InvalidInstanceID.NotFound": {provider.NotFound, ""}, // gone, or not visible yet

	"IncorrectInstanceState": {provider.Transient, ""},
	"InternalError":          {provider.Transient, "region"},
	"InternalFailure":        {provider.Transient, "region"},
	"Unavailable":            {provider.Transient, "region"},
	"ServiceUnavailable":     {provider.Transient, "region"},
	"RequestTimeout":         {provider.Transient, "region"},

	dryRun:                                    {provider.Invalid, ""},
	"MissingParameter":                        {provider.Invalid, ""},
	"UnknownParameter":                        {provider.Invalid, ""},
	"UnsupportedOperation":                    {provider.Invalid, ""},
	"MalformedQueryString":                    {provider.Invalid, ""},
	"ValidationError":                         {provider.Invalid, ""},
	"TagLimitExceeded":                        {provider.Invalid, ""},
	"QueueDoesNotExist":                       {provider.Invalid, "region"},
	"AWS.SimpleQueueService.NonExistentQueue": {provider.Invalid, "region"},
}

// dryRun is EC2's way to say that a dry run would have worked. To any other call
// it means that nothing was done.
const dryRun = "DryRunOperation"

func wouldHaveWorked(err error) bool {
	api, ok := errors.AsType[smithy.APIError](err)
	return ok && api.ErrorCode() == dryRun
}

// classify turns a failed call into our terms: by its code, then its status, then
// by how it broke.
//
// Whatever a launch met on the seller's side, but for a refusal with a code, may
// have made a machine.
func classify(op string, err error) *provider.Error {
	e := &provider.Error{Op: op, Err: err}
	status := 0
	if resp, ok := errors.AsType[*smithyhttp.ResponseError](err); ok {
		status = resp.HTTPStatusCode()
		e.Code = fmt.Sprintf("HTTP%d", status)
	}
	switch api, ok := errors.AsType[smithy.APIError](err); {
	case ok && api.ErrorCode() != "" && api.ErrorCode() != unknownCode:
		e.Code, e.Message, e.Err = api.ErrorCode(), short(api.ErrorMessage()), nil
		e.Kind, e.Scope = judge(e.Code, status)
	default:
		e.Kind, e.Scope = withoutCode(op, err, status, e)
	}
	if op == provider.OpLaunch && e.Kind == provider.Transient && !errors.Is(err, provider.ErrHeldBack) && !unsent(err) {
		e.Kind = provider.UnknownOutcome
	}
	e.MaybeCreated = op == provider.OpLaunch && e.Kind == provider.UnknownOutcome
	return e
}

// unknownCode is what the client puts where an error had no code.
const unknownCode = "UnknownError"

// judge is the meaning of an error with a code.
func judge(code string, status int) (provider.Kind, string) {
	if m, ok := codes[code]; ok {
		return m.kind, m.scope
	}
	switch {
	case strings.HasSuffix(code, "LimitExceeded"):
		return provider.Quota, "region"
	case strings.HasPrefix(code, "Invalid") && status < 500:
		return provider.Invalid, ""
	}
	return provider.Transient, "region"
}

// withoutCode is the meaning of an error that has none.
func withoutCode(op string, err error, status int, e *provider.Error) (provider.Kind, string) {
	if _, hostile := errors.AsType[*replyError](err); hostile {
		e.Code = "MalformedReply"
	}
	switch {
	case errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
		return provider.Unanswered(op, err).Kind, ""
	case status == http.StatusTooManyRequests:
		return provider.Throttled, "region"
	case unsent(err):
		e.Code = "Unreachable"
		if op == provider.OpLaunch {
			// It says nothing of an earlier launch under the same token.
			e.Err = fmt.Errorf("%w: %w", provider.ErrHeldBack, err)
		}
		return provider.Transient, "region"
	}
	return provider.Unanswered(op, err).Kind, "region"
}

// unsent says whether a call cannot have reached the seller.
func unsent(err error) bool {
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return true
	}
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial"
}

// short is a message that fits a log line; EC2's about rights carry two kilobytes of code.
func short(message string) string {
	if cut := strings.Index(message, "Encoded authorization failure"); cut > 0 {
		message = message[:cut]
	}
	return fmt.Sprintf("%.300s", strings.TrimSpace(strings.ToValidUTF8(message, "\uFFFD")))
}

// refusal is an answer of our own to a launch, before EC2 is asked. It wraps
// ErrHeldBack, because it says nothing of an earlier launch under the same token.
func refusal(k provider.Kind, pool events.Pool, code, format string, args ...any) *provider.Error {
	return &provider.Error{
		Kind: k, Op: provider.OpLaunch, Scope: "pool", Pool: &pool, Code: code,
		Err: fmt.Errorf("%w: %s", provider.ErrHeldBack, fmt.Sprintf(format, args...)),
	}
}

// notSent is the failure of what a launch needs before it can be sent.
func notSent(pool events.Pool, err error) *provider.Error {
	e := classify(provider.OpList, err)
	e.Op, e.Pool = provider.OpLaunch, &pool
	if e.Kind == provider.UnknownOutcome {
		e.Kind = provider.Transient
	}
	e.Err = fmt.Errorf("%w: %w", provider.ErrHeldBack, err)
	return e
}
