package azure

import (
	"testing"
	"time"

	"github.com/spotferry/spotferry/bidder/provider"
)

// Every code that is known, as an answer to a creation, as the end of its operation
// and as an answer to a read.
func TestWhatCodesMean(t *testing.T) {
	t.Parallel()
	const quota = "Operation could not be completed as it results in exceeding approved standardNCADSA100v4Family Cores quota."
	for _, tc := range []struct {
		code   string
		status int
		text   string
		create provider.Kind
		late   provider.Kind
		read   provider.Kind
		scope  string
	}{
		{"SkuNotAvailable", 409, "", provider.NoCapacity, provider.NoCapacity, provider.NoCapacity, "pool"},
		{"AllocationFailed", 409, "", provider.NoCapacity, provider.NoCapacity, provider.NoCapacity, "pool"},
		{"AllocationFailed", 500, "", provider.NoCapacity, provider.NoCapacity, provider.NoCapacity, "pool"},
		{"ZonalAllocationFailed", 409, "", provider.NoCapacity, provider.NoCapacity, provider.NoCapacity, "pool"},
		{"OverconstrainedAllocationRequest", 409, "", provider.NoCapacity, provider.NoCapacity, provider.NoCapacity, "pool"},
		{"OverconstrainedZonalAllocationRequest", 409, "", provider.NoCapacity, provider.NoCapacity, provider.NoCapacity, "pool"},
		{"SpotPriceGreaterThanProvidedMaxPrice", 409, "", provider.PriceTooLow, provider.PriceTooLow, provider.PriceTooLow, "pool"},
		{"OperationNotAllowed", 409, quota, provider.Quota, provider.Quota, provider.Quota, "region"},
		{"OperationNotAllowed", 409, "The server rejected the request.", provider.Invalid, provider.Invalid, provider.Invalid, "seller"},
		{"QuotaExceeded", 409, "", provider.Quota, provider.Quota, provider.Quota, "region"},
		{"TooManyRequests", 429, "", provider.Throttled, provider.Throttled, provider.Throttled, "account"},
		{"", 429, "", provider.Throttled, provider.Transient, provider.Throttled, "account"},
		{"AuthorizationFailed", 403, "", provider.Auth, provider.Auth, provider.Auth, "account"},
		{"LinkedAuthorizationFailed", 403, "", provider.Auth, provider.Auth, provider.Auth, "account"},
		{"ReadOnlyDisabledSubscription", 409, "", provider.Auth, provider.Auth, provider.Auth, "account"},
		{"AzureSpotFeatureNotEnabledForSubscription", 409, "", provider.Auth, provider.Auth, provider.Auth, "account"},
		{"InvalidAuthenticationToken", 401, "", provider.Auth, provider.Auth, provider.Auth, "account"},
		{"", 401, "", provider.Auth, provider.Transient, provider.Auth, "account"},
		{"MaxPriceValueInvalid", 400, "", provider.Invalid, provider.Invalid, provider.Invalid, "seller"},
		{"MaxPriceChangeNotAllowedForAllocatedVMs", 409, "", provider.Invalid, provider.Invalid, provider.Invalid, "seller"},
		{"InvalidParameter", 400, "", provider.Invalid, provider.Invalid, provider.Invalid, "seller"},
		{"AzureSpotIsNotSupportedForThisVMSize", 400, "", provider.Invalid, provider.Invalid, provider.Invalid, "seller"},
		{"SomethingNew", 400, "", provider.Invalid, provider.Transient, provider.Invalid, "seller"},
		{"ResourceGroupNotFound", 404, "", provider.Invalid, provider.Invalid, provider.NotFound, "seller"},
		{"ResourceNotFound", 404, "", provider.Invalid, provider.Invalid, provider.NotFound, "seller"},
		{"PreconditionFailed", 412, "", provider.Conflict, provider.Conflict, provider.Conflict, "pool"},
		{"InternalServerError", 500, "", provider.UnknownOutcome, provider.Transient, provider.Transient, "seller"},
		{"RetryableError", 500, "", provider.UnknownOutcome, provider.Transient, provider.Transient, "seller"},
		{"RetryableError", 409, "", provider.Transient, provider.Transient, provider.Transient, "seller"},
		{"ServiceUnavailable", 503, "", provider.UnknownOutcome, provider.Transient, provider.Transient, "seller"},
		{"", 503, "", provider.UnknownOutcome, provider.Transient, provider.Transient, "seller"},
		{"", 418, "", provider.UnknownOutcome, provider.Transient, provider.Transient, "seller"},
	} {
		a := answer{status: tc.status, code: tc.code, text: tc.text, wait: 5 * time.Second}
		create := classify(provider.OpLaunch, a)
		if create.Kind != tc.create || create.Scope != tc.scope || create.Code == "" || create.RetryAfter != 5*time.Second {
			t.Errorf("%s %d of a creation: %+v; want %s of the %s, with a code", tc.code, tc.status, create, tc.create, tc.scope)
		}
		if create.MaybeCreated != (tc.create == provider.UnknownOutcome) {
			t.Errorf("%s %d: MaybeCreated is %v", tc.code, tc.status, create.MaybeCreated)
		}
		if read := classify(provider.OpList, a); read.Kind != tc.read {
			t.Errorf("%s %d of a read: %s; want %s", tc.code, tc.status, read.Kind, tc.read)
		}
		a.late = true
		if late := classify(provider.OpLaunch, a); late.Kind != tc.late || late.MaybeCreated {
			t.Errorf("%s of an operation: %+v; want %s", tc.code, late, tc.late)
		}
	}
}
