package vast

import (
	"net/http"
	"testing"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/bidder/provider/wire"
)

func TestEveryRefusalOfVastHasItsKind(t *testing.T) {
	t.Parallel()
	const launch, read, end = provider.OpLaunch, provider.OpList, provider.OpTerminate
	for _, tc := range []struct {
		name   string
		op     string
		status int
		body   string
		want   provider.Kind
		scope  string
		code   string
		maybe  bool
	}{
		{"an offer that is gone, 404", launch, 404, `{"success":false,"error":"no_such_ask","msg":"error 404/3603: no_such_ask  Instance type by id 1 is not available."}`, provider.OfferGone, "pool", "no_such_ask", false},
		{"an offer that is gone, 410", launch, 410, `{"success":false,"error":"no_such_ask","msg":"error 410/3907"}`, provider.OfferGone, "pool", "no_such_ask", false},
		{"the number alone, as msg", launch, 400, `{"msg":"error 404/3603: no longer there"}`, provider.OfferGone, "pool", "400", false},
		{"the number alone, as message", launch, 410, `{"message":"error 410/3907"}`, provider.OfferGone, "pool", "410", false},
		{"an offer that is gone, without a word", launch, 404, ``, provider.OfferGone, "seller", "404", false},
		{"a bid below the least", launch, 400, `{"success":false,"error":"invalid_price","msg":"price is too low"}`, provider.PriceTooLow, "pool", "invalid_price", false},
		{"a changed bid below the least", provider.OpRebid, 400, `{"success":false,"error":"invalid_price"}`, provider.PriceTooLow, "pool", "invalid_price", false},
		{"a low bid that left an instance", launch, 400, `{"success":false,"error":"invalid_price","new_contract":7}`, provider.PriceTooLow, "pool", "invalid_price", true},
		{"a lost race that left an instance", launch, 400, `{"success":false,"msg":"could not start","new_contract":"7"}`, provider.NoCapacity, "pool", "400", true},
		{"a lost race with status 200", launch, 200, `{"success":false,"new_contract":7}`, provider.NoCapacity, "pool", "200", true},
		{"a wrong request", launch, 400, `{"success":false,"error":"invalid_args","msg":"disk"}`, provider.Invalid, "", "invalid_args", false},
		{"a wrong request with status 200", launch, 200, `{"success":false,"error":"invalid_args","msg":"disk"}`, provider.Invalid, "", "invalid_args", false},
		{"a wrong request, as detail", launch, 422, `{"detail":[{"loc":["disk"]}]}`, provider.Invalid, "seller", "422", false},
		{"too fast, in plain text", launch, 429, `API requests too frequent endpoint threshold=4.5`, provider.Throttled, "seller", "429", false},
		{"too fast, in a list", read, 429, `API requests too frequent`, provider.Throttled, "seller", "429", false},
		{"a wrong key", launch, 401, `{"success":false,"error":"auth_error","msg":"Invalid user key"}`, provider.Auth, "account", "auth_error", false},
		{"a wrong key with status 200", read, 200, `{"success":false,"error":"auth_error"}`, provider.Auth, "account", "auth_error", false},
		{"a key without the right", read, 403, `{"detail":"Forbidden"}`, provider.Auth, "account", "403", false},
		{"no funds", launch, 400, `{"success":false,"error":"insufficient_credit","msg":"Your account lacks credit"}`, provider.Auth, "account", "insufficient_credit", false},
		{"no funds, by the text", launch, 400, `{"msg":"Insufficient credit"}`, provider.Auth, "account", "400", false},
		{"no funds, by the status", launch, 402, ``, provider.Auth, "account", "402", false},
		{"an instance that is gone", end, 404, `{"success":false,"error":"no_such_instance"}`, provider.NotFound, "", "no_such_instance", false},
		{"an instance that is gone, with status 200", end, 200, `{"success":false,"msg":"no_such_instance"}`, provider.NotFound, "", "200", false},
		{"trouble while buying", launch, 500, `<html>`, provider.UnknownOutcome, "seller", "500", true},
		{"a gateway while buying", launch, 502, ``, provider.UnknownOutcome, "seller", "502", true},
		{"trouble while reading", read, 503, ``, provider.Transient, "seller", "503", false},
		{"failure without a reason, while buying", launch, 200, `{"success":false}`, provider.UnknownOutcome, "seller", "200", true},
		{"neither success nor failure, while buying", launch, 200, `{}`, provider.UnknownOutcome, "seller", "200", true},
		{"a redirect, while buying", launch, 302, ``, provider.UnknownOutcome, "seller", "302", true},
		{"a redirect, while reading", read, 302, ``, provider.Transient, "seller", "302", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r, _ := readReply(wire.Answer{Status: tc.status, Header: http.Header{}, Body: []byte(tc.body)})
			e := classify(tc.op, tc.status, r)
			if e.Kind != tc.want || e.Scope != tc.scope || e.Code != tc.code || e.MaybeCreated != tc.maybe || e.Op != tc.op {
				t.Errorf("classify = %+v; want %s, scope %q, code %q, maybe created %v", e, tc.want, tc.scope, tc.code, tc.maybe)
			}
		})
	}
}

func TestStatesOfAnInstance(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name                            string
		actual, current, next, intended string
		want                            provider.State
		by                              string
	}{
		{"it is being made", "", "running", "running", "running", provider.Pending, ""},
		{"created", "created", "running", "running", "running", provider.Pending, ""},
		{"it loads its image", "loading", "running", "running", "running", provider.Pending, ""},
		{"it runs", "running", "running", "running", "running", provider.Running, ""},
		{"it restarts", "rebooting", "running", "running", "running", provider.Pending, ""},
		{"frozen costs as running does", "frozen", "running", "running", "frozen", provider.Running, ""},
		{"outbid", "stopped", "stopped", "stopped", "stopped", provider.Stopping, "seller"},
		{"outbid, and the container's word is late", "running", "stopped", "stopped", "stopped", provider.Stopping, "seller"},
		{"outbid before it had a container", "", "stopped", "stopped", "stopped", provider.Stopping, "seller"},
		{"it won again, and starts", "stopped", "stopped", "running", "running", provider.Pending, ""},
		{"its program ended", "exited", "running", "running", "running", provider.Stopping, "machine"},
		{"the host says nothing", "unknown", "running", "running", "running", provider.Stopping, "fault"},
		{"the host is away", "offline", "running", "running", "running", provider.Stopping, "fault"},
		{"a word that nobody knows costs money", "hibernating", "x", "y", "z", provider.Running, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if s, by := stateOf(tc.actual, tc.current, tc.next, tc.intended); s != tc.want || by != tc.by {
				t.Errorf("stateOf = %s by %q, want %s by %q", s, by, tc.want, tc.by)
			}
		})
	}
}
