package gcpfake

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/spotferry/spotferry/bidder/provider"
)

// reply answers with what was asked for.
func reply(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	b, err := json.Marshal(v)
	if err != nil {
		refuse(w, 500, "internalError", err.Error())
		return
	}
	_, _ = w.Write(b) // whoever asked may have gone
}

// refuse answers as Google refuses.
func refuse(w http.ResponseWriter, status int, reason, message string) {
	w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{
		"code": status, "message": message,
		"errors": []any{map[string]any{"message": message, "domain": "global", "reason": reason}},
	}})
}

// page is what a proxy says for an answer.
const page = "<!DOCTYPE html><html><head><title>502 Bad Gateway</title></head><body>temporarily overloaded</body></html>"

// hangUp breaks the connection in the place of an answer.
func hangUp() { panic(http.ErrAbortHandler) }

// word is a refusal in Google's words.
type word struct {
	status  int
	reason  string
	code    string // of an operation's error
	message string
	late    bool // it is the operation that says so
}

// wordFor is how Google says of resource what the seller behind has said.
func wordFor(e *provider.Error, op, resource string) word {
	launch := op == provider.OpLaunch
	say := func(format string, args ...any) string { return fmt.Sprintf(format, args...) + ": " + e.Message }
	switch e.Kind {
	case provider.NoCapacity:
		return word{503, "", "ZONE_RESOURCE_POOL_EXHAUSTED", say("The zone of '%s' does not have enough resources available to fulfill the request", resource), launch}
	case provider.Quota:
		quota := "NVIDIA_A100_GPUS"
		if e.Scope == "account" {
			quota = "GPUS_ALL_REGIONS"
		}
		return word{403, "quotaExceeded", "QUOTA_EXCEEDED", say("Quota '%s' exceeded. Limit: 1.0", quota), launch}
	case provider.OfferGone:
		return word{404, "notFound", "RESOURCE_NOT_FOUND", say("The resource 'projects/p/zones/z/machineTypes/%s' was not found", resource), false}
	case provider.Throttled:
		return word{403, "rateLimitExceeded", "RESOURCE_OPERATION_RATE_EXCEEDED", say("Rate Limit Exceeded"), false}
	case provider.Auth:
		return word{403, "forbidden", "IAM_PERMISSION_DENIED", say("Required permission for '%s'", resource), false}
	case provider.Invalid:
		return word{400, "invalid", "INVALID_FIELD_VALUE", say("Invalid value for field of '%s'", resource), false}
	case provider.Conflict:
		return word{409, "alreadyExists", "RESOURCE_ALREADY_EXISTS", say("The resource '%s' already exists", resource), false}
	case provider.NotFound:
		return word{404, "notFound", "RESOURCE_NOT_FOUND", say("The resource '%s' was not found", resource), false}
	case provider.Transient:
		if launch {
			return word{400, "resourceNotReady", "RESOURCE_NOT_READY", say("The resource '%s' is not ready", resource), false}
		}
		return word{503, "backendError", "INTERNAL_ERROR", say("Backend Error"), false}
	}
	return word{500, "backendError", "INTERNAL_ERROR", say("Internal error. Please try again or contact Google Support"), false}
}

// lost says whether the seller behind did not answer at all.
func lost(e *provider.Error) bool { return e.Code == "" && e.Err != nil }

// fail answers a call that the seller behind has failed.
func fail(w http.ResponseWriter, op, resource string, err error) {
	e, ok := errors.AsType[*provider.Error](err)
	switch {
	case !ok:
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte(page))
		return
	case lost(e):
		hangUp()
	}
	if e.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int((e.RetryAfter+time.Second-1)/time.Second)))
	}
	said := wordFor(e, op, resource)
	reason := said.reason
	if reason == "" {
		reason = said.code
	}
	refuse(w, said.status, reason, said.message)
}
