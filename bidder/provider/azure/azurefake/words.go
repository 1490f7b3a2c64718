package azurefake

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/spotferry/spotferry/bidder/provider"
)

// word is a refusal in Azure's words.
type word struct {
	status  int
	code    string
	message string
	late    bool // it is the operation that says so
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // whoever asked may have gone
}

func refuse(w http.ResponseWriter, said word) {
	answer(w, said.status, map[string]any{"error": map[string]any{"code": said.code, "message": said.message}})
}

// page is what a gateway says for an answer.
const page = "<!DOCTYPE html><html><head><title>502 Bad Gateway</title></head><body>temporarily overloaded</body></html>"

// wordFor is how Azure says of resource what the seller behind has said.
func wordFor(e *provider.Error, op, resource string) word {
	launch := op == provider.OpLaunch
	say := func(s string) string { return s + " (" + resource + "): " + e.Message }
	switch e.Kind {
	case provider.NoCapacity:
		return word{409, "AllocationFailed", say("Allocation failed. We do not have sufficient capacity for the requested VM size in this region."), launch}
	case provider.OfferGone:
		return word{409, "SkuNotAvailable", say("The requested size is currently not available in this location."), false}
	case provider.PriceTooLow:
		return word{409, "SpotPriceGreaterThanProvidedMaxPrice", say("The current Azure Spot price is higher than the maximum price provided."), launch}
	case provider.Quota:
		return word{409, "OperationNotAllowed", say("Operation could not be completed as it results in exceeding approved LowPriorityCores quota."), false}
	case provider.Throttled:
		return word{429, "TooManyRequests", say("The number of requests is above the limit."), false}
	case provider.Auth:
		return word{403, "AuthorizationFailed", say("The client does not have authorization to perform the action."), false}
	case provider.Invalid:
		return word{400, "InvalidParameter", say("The value of a parameter is invalid."), false}
	case provider.Conflict:
		return word{409, "Conflict", say("The request conflicts with what is there."), false}
	case provider.NotFound:
		return word{404, "ResourceNotFound", say("The resource was not found."), false}
	case provider.Transient:
		if launch {
			return word{409, "RetryableError", say("A retryable error occurred."), true}
		}
		return word{503, "ServiceUnavailable", say("The service is unavailable."), false}
	}
	return word{500, "InternalServerError", say("Encountered internal server error."), false}
}

// lost says whether the seller behind did not answer at all.
func lost(e *provider.Error) bool { return e.Code == "" && e.Err != nil }

// late says whether a failure of a purchase is told by its operation.
func late(err error) bool {
	e, ok := errors.AsType[*provider.Error](err)
	return ok && !lost(e) && wordFor(e, provider.OpLaunch, "").late
}

// fail answers a call that the seller behind has failed.
func fail(w http.ResponseWriter, op, resource string, err error) {
	e, ok := errors.AsType[*provider.Error](err)
	switch {
	case !ok:
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte(page))
		return
	case lost(e):
		panic(http.ErrAbortHandler) // breaks the connection
	}
	if e.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int((e.RetryAfter+time.Second-1)/time.Second)))
	}
	refuse(w, wordFor(e, op, resource))
}
