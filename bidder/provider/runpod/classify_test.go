package runpod

import (
	"testing"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/events"
)

func TestEveryRefusalOfRunPodHasItsKind(t *testing.T) {
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
		{"no capacity, by its text", launch, 400, `{"title":"Bad Request","detail":"This machine does not have the resources to deploy your pod."}`, provider.NoCapacity, "pool", "400", false},
		{"no capacity, by its other text", launch, 400, `{"detail":"There are no longer any instances available with the requested specifications."}`, provider.NoCapacity, "pool", "400", false},
		{"no capacity, whatever the status", launch, 500, `{"detail":"There are no longer any instances available"}`, provider.NoCapacity, "pool", "500", false},
		{"no capacity by GraphQL, with status 200", launch, 200, `{"message":"There are no longer any instances available"}`, provider.NoCapacity, "pool", "graphql", false},
		{"400 and no reason", launch, 400, `{"detail":"Bad request."}`, provider.NoCapacity, "pool", unexplained, false},
		{"400 for a list is of the request", read, 400, `{"detail":"Bad request."}`, provider.Invalid, "", "400", false},
		{"a request that cannot be", launch, 422, `{"detail":"image is required"}`, provider.Invalid, "", "422", false},
		{"no balance", launch, 402, `{"detail":"Insufficient balance"}`, provider.Auth, "account", "402", false},
		{"no balance, by GraphQL", launch, 200, `{"message":"Your account balance is too low"}`, provider.Auth, "account", "graphql", false},
		{"not this pool", launch, 403, `{"detail":"Forbidden"}`, provider.NoCapacity, "pool", "403", false},
		{"not this account", read, 403, `{"detail":"Forbidden"}`, provider.Auth, "account", "403", false},
		{"a wrong key", read, 401, ``, provider.Auth, "account", "401", false},
		{"a wrong key, by GraphQL", read, 200, `{"title":"UNAUTHENTICATED","message":"no"}`, provider.Auth, "account", "graphql", false},
		{"a query that cannot be", read, 200, `{"title":"GRAPHQL_VALIDATION_FAILED"}`, provider.Invalid, "", "graphql", false},
		{"too fast", launch, 429, `slow down`, provider.Throttled, "seller", "429", false},
		{"not valid now", launch, 409, ``, provider.Conflict, "", "409", false},
		{"a pod that is gone", end, 404, `{"detail":"not found"}`, provider.NotFound, "", "404", false},
		{"a pod that is gone, by its text", end, 500, `{"detail":"pod not found to terminate"}`, provider.NotFound, "", "500", false},
		{"a pod that is gone, by GraphQL", end, 200, `{"message":"pod not found to terminate"}`, provider.NotFound, "", "graphql", false},
		{"nothing to create there", launch, 404, ``, provider.OfferGone, "pool", "404", false},
		{"trouble while buying", launch, 500, `<html>`, provider.UnknownOutcome, "seller", "500", true},
		{"trouble while buying, by GraphQL", launch, 200, `{"message":"Something went wrong"}`, provider.UnknownOutcome, "seller", "graphql", true},
		{"trouble while reading", read, 502, ``, provider.Transient, "seller", "502", false},
		{"trouble while reading, by GraphQL", read, 200, `{"message":"Something went wrong"}`, provider.Transient, "seller", "graphql", false},
		{"a redirect", launch, 302, ``, provider.UnknownOutcome, "seller", "302", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			e := classify(tc.op, tc.status, problemOf([]byte(tc.body)))
			if e.Kind != tc.want || e.Scope != tc.scope || e.Code != tc.code || e.MaybeCreated != tc.maybe || e.Op != tc.op {
				t.Errorf("classify = %+v; want %s, scope %q, code %q, maybe created %v", e, tc.want, tc.scope, tc.code, tc.maybe)
			}
		})
	}
}

func TestA400WithoutAReasonIsTheRequestWhenAllSaySo(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		refused, offered int
		want             provider.Kind
	}{
		{1, 3, provider.NoCapacity}, {2, 3, provider.NoCapacity}, {3, 3, provider.Invalid}, {1, 1, provider.Invalid}, {1, 0, provider.Invalid},
		{4, 100, provider.NoCapacity}, {5, 100, provider.Invalid},
	} {
		if got := verdict(tc.refused, tc.offered); got != tc.want {
			t.Errorf("%d of %d pools: %s, want %s", tc.refused, tc.offered, got, tc.want)
		}
	}
}

func TestStatusesOfAPod(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		status string
		terms  events.CapacityType
		want   provider.State
		by     string
	}{
		{"PROVISIONING", events.OnDemand, provider.Pending, ""},
		{"STARTING", events.OnDemand, provider.Pending, ""},
		{"RUNNING", events.OnDemand, provider.Running, ""},
		{"EXITED", events.OnDemand, provider.Stopping, "machine"},
		{"EXITED", events.Bid, provider.Stopping, "seller"},
		{"ERROR", events.OnDemand, provider.Stopping, "fault"},
		{"TERMINATED", events.OnDemand, provider.Gone, "seller"},
		{"", events.OnDemand, provider.Running, ""},
		{"MIGRATING", events.OnDemand, provider.Running, ""},
	} {
		if s, by := stateOf(tc.status, tc.terms); s != tc.want || by != tc.by {
			t.Errorf("%q on %s is %s by %q, want %s by %q", tc.status, tc.terms, s, by, tc.want, tc.by)
		}
	}
}

func TestCountriesOfDataCentres(t *testing.T) {
	t.Parallel()
	for place, want := range map[string]string{
		"EU-RO-1": "RO", "US-TX-3": "US", "CA-MTL-1": "CA", "EUR-IS-1": "IS", "AP-JP-1": "JP", "EU-SE-1": "SE", "OC-AU-1": "AU", "us-west-2a": "", "": "", "EU-RO": "",
	} {
		if got := countryOf(place); got != want {
			t.Errorf("%q is in %q, want %q", place, got, want)
		}
	}
}
