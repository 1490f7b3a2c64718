package gcp

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/api/compute/v1"
	"google.golang.org/api/googleapi"

	"github.com/spotferry/spotferry/bidder/provider"
)

// Every refusal that Google has, what it means for a launch and for a read.
func TestClassify(t *testing.T) {
	t.Parallel()
	const launch, list = provider.OpLaunch, provider.OpList
	for _, tc := range []struct {
		name   string
		op     string
		status int
		code   string
		text   string
		late   bool
		kind   provider.Kind
		scope  string
	}{
		{"a zone is exhausted", launch, 0, "ZONE_RESOURCE_POOL_EXHAUSTED", "", true, provider.NoCapacity, "pool"},
		{"a zone is exhausted, with details", launch, 0, "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS", "", true, provider.NoCapacity, "pool"},
		{"a zone is exhausted and HTTP says so at once", launch, 503, "ZONE_RESOURCE_POOL_EXHAUSTED", "", false, provider.NoCapacity, "pool"},
		{"a region is exhausted", launch, 0, "REGION_RESOURCE_POOL_EXHAUSTED", "", true, provider.NoCapacity, "pool"},
		{"resources are exhausted", launch, 0, "RESOURCE_POOL_EXHAUSTED", "", true, provider.NoCapacity, "pool"},
		{"resources are exhausted, with details", launch, 0, "RESOURCE_POOL_EXHAUSTED_WITH_DETAILS", "", true, provider.NoCapacity, "pool"},
		{"GPUs are out of stock", launch, 0, "GPU_STOCKOUT", "", true, provider.NoCapacity, "pool"},
		{"capacity is insufficient", launch, 503, "insufficientCapacity", "", false, provider.NoCapacity, "pool"},
		{"preempted while it was made", launch, 0, "UNSUPPORTED_OPERATION", "", true, provider.NoCapacity, "pool"},
		{"the region's quota, late", launch, 403, "QUOTA_EXCEEDED", "Quota 'NVIDIA_A100_GPUS' exceeded", true, provider.Quota, "region"},
		{"the region's quota, at once", launch, 403, "quotaExceeded", "", false, provider.Quota, "region"},
		{"the project's quota, late", launch, 403, "QUOTA_EXCEEDED", "Quota 'GPUS_ALL_REGIONS' exceeded. Limit: 0.0 globally.", true, provider.Quota, "account"},
		{"the project's quota, at once", launch, 403, "quotaExceeded", "Quota 'GPUS_ALL_REGIONS' exceeded.", false, provider.Quota, "account"},
		{"too fast, as a 403", launch, 403, "rateLimitExceeded", "", false, provider.Throttled, "account"},
		{"too fast for one user", list, 403, "userRateLimitExceeded", "", false, provider.Throttled, "account"},
		{"too fast, as a detail", list, 403, "RATE_LIMIT_EXCEEDED", "", false, provider.Throttled, "account"},
		{"too many operations", launch, 0, "RESOURCE_OPERATION_RATE_EXCEEDED", "", true, provider.Throttled, "account"},
		{"too fast without a reason", list, 429, "", "", false, provider.Throttled, "account"},
		{"no permission, late", launch, 0, "IAM_PERMISSION_DENIED", "", true, provider.Auth, "account"},
		{"no permission, at once", launch, 403, "forbidden", "", false, provider.Auth, "account"},
		{"a 403 without a reason", list, 403, "", "", false, provider.Auth, "account"},
		{"no token", launch, 401, "required", "Login Required", false, provider.Auth, "account"},
		{"a token that has expired", list, 401, "authError", "", false, provider.Auth, "account"},
		{"a 401 without a reason", launch, 401, "", "", false, provider.Auth, "account"},
		{"the API is not enabled", list, 403, "accessNotConfigured", "", false, provider.Auth, "account"},
		{"a zone that is not for us", launch, 404, "notFound", "The resource 'projects/p/zones/x' was not found or access is unauthorized", false, provider.Auth, "zone"},
		{"a field is wrong, late", launch, 0, "INVALID_FIELD_VALUE", "", true, provider.Invalid, "seller"},
		{"a use is wrong", launch, 0, "INVALID_USAGE", "", true, provider.Invalid, "seller"},
		{"a field is wrong, at once", launch, 400, "invalid", "", false, provider.Invalid, "seller"},
		{"a field is missing", launch, 400, "required", "Required field 'disks' not specified", false, provider.Invalid, "seller"},
		{"no such network", launch, 0, "VPC_NOT_FOUND", "", true, provider.Invalid, "seller"},
		{"a policy of the organisation forbids it", launch, 412, "conditionNotMet", "", false, provider.Invalid, "seller"},
		{"an image that is not there", launch, 404, "notFound", "The resource 'projects/p/global/images/family/f' was not found", false, provider.Invalid, "seller"},
		{"a type that the zone has not", launch, 404, "notFound", "The resource 'projects/p/zones/z/machineTypes/a2-highgpu-1g' was not found", false, provider.OfferGone, "pool"},
		{"a GPU that the zone has not", launch, 404, "notFound", "The resource 'projects/p/zones/z/acceleratorTypes/x' was not found", false, provider.OfferGone, "pool"},
		{"still stopping, late", launch, 0, "RESOURCE_NOT_READY", "", true, provider.Transient, "seller"},
		{"still stopping, at once", launch, 400, "resourceNotReady", "", false, provider.Transient, "seller"},
		{"the name is taken", launch, 409, "alreadyExists", "", false, provider.Conflict, "pool"},
		{"the name is taken, late", launch, 409, "RESOURCE_ALREADY_EXISTS", "", true, provider.Conflict, "pool"},
		{"gone", provider.OpTerminate, 404, "notFound", "", false, provider.NotFound, "pool"},
		{"their trouble, late", launch, 500, "INTERNAL_ERROR", "", true, provider.Transient, "seller"},
		{"their trouble on an insertion", launch, 500, "INTERNAL_ERROR", "", false, provider.UnknownOutcome, "seller"},
		{"their backend on an insertion", launch, 503, "backendError", "", false, provider.UnknownOutcome, "seller"},
		{"503 on an insertion", launch, 503, "", "", false, provider.UnknownOutcome, "seller"},
		{"502 with a page on an insertion", launch, 502, "", "<html>", false, provider.UnknownOutcome, "seller"},
		{"their backend on a read", list, 503, "backendError", "", false, provider.Transient, "seller"},
		{"503 on a read", list, 503, "", "", false, provider.Transient, "seller"},
		{"unheard of on an insertion", launch, 418, "teapot", "", false, provider.UnknownOutcome, "seller"},
		{"unheard of, late", launch, 400, "SOMETHING_NEW", "", true, provider.UnknownOutcome, "seller"},
		{"unheard of on a read", list, 418, "teapot", "", false, provider.Transient, "seller"},
		{"a redirection", list, 302, "", "", false, provider.Transient, "seller"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			a := answer{status: tc.status, text: tc.text, late: tc.late}
			if tc.code != "" {
				a.codes = []string{tc.code}
			}
			e := classify(tc.op, a)
			if e.Kind != tc.kind || e.Scope != tc.scope || e.Op != tc.op {
				t.Errorf("classify = %s of %s, want %s of %s", e.Kind, e.Scope, tc.kind, tc.scope)
			}
			if e.Code == "" || tc.code != "" && e.Code != tc.code {
				t.Errorf("Code = %q, want the seller's", e.Code)
			}
			if e.MaybeCreated != (tc.op == launch && tc.kind == provider.UnknownOutcome) {
				t.Errorf("MaybeCreated = %v", e.MaybeCreated)
			}
		})
	}
}

// Every code of the table means one thing however it is spelt.
func TestMeaningsAreSpeltByTheirLetters(t *testing.T) {
	t.Parallel()
	for code, m := range meanings {
		if letters(code) != code {
			t.Errorf("%q is not found by its letters %q", code, letters(code))
		}
		if m.scope == "" {
			t.Errorf("%q is said of nothing", code)
		}
	}
}

func TestAnAnswerIsReadForItsReasons(t *testing.T) {
	t.Parallel()
	e := &googleapi.Error{
		Code: 403, Message: strings.Repeat("long ", 4000), Header: http.Header{"Retry-After": {"7"}},
		Details: []any{map[string]any{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "RATE_LIMIT_EXCEEDED"}, "nonsense", nil},
	}
	got := failed(provider.OpList, false, e)
	if got.Kind != provider.Throttled || got.RetryAfter != 7*time.Second || len(got.Message) > 500 {
		t.Errorf("failed = %+v", got)
	}
	e.Header.Set("Retry-After", "999999999999")
	if got = failed(provider.OpList, false, e); got.RetryAfter > provider.MaxRetryAfter {
		t.Errorf("RetryAfter = %s", got.RetryAfter)
	}
	op := &compute.Operation{Error: &compute.OperationError{Errors: []*compute.OperationErrorErrors{nil, {
		Code: "QUOTA_EXCEEDED", Message: "exceeded",
		ErrorDetails: []*compute.OperationErrorErrorsErrorDetails{nil, {QuotaInfo: &compute.QuotaExceededInfo{LimitName: "GPUS-ALL-REGIONS-per-project", MetricName: "compute.googleapis.com/gpus_all_regions"}}},
	}}}}
	if got = classify(provider.OpLaunch, toldLate(op)); got.Kind != provider.Quota || got.Scope != "account" {
		t.Errorf("a quota that only the details name: %+v", got)
	}
}

func TestACallThatWasNotSentLeavesNoDoubt(t *testing.T) {
	t.Parallel()
	cause := errors.New("no such host")
	for _, tc := range []struct {
		name string
		op   string
		sent bool
		kind provider.Kind
	}{
		{"an insertion that was not sent", provider.OpLaunch, false, provider.Transient},
		{"an insertion that was sent", provider.OpLaunch, true, provider.UnknownOutcome},
		{"a read that was sent", provider.OpList, true, provider.Transient},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			e := failed(tc.op, tc.sent, cause)
			if e.Kind != tc.kind || e.MaybeCreated != (tc.kind == provider.UnknownOutcome) || !errors.Is(e, cause) {
				t.Errorf("failed = %+v", e)
			}
		})
	}
}
