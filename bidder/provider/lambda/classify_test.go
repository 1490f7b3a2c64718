package lambda

import (
	"testing"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/bidder/provider/wire"
)

func TestEveryRefusalOfLambdaHasItsKind(t *testing.T) {
	t.Parallel()
	const launch, read, end = provider.OpLaunch, provider.OpList, provider.OpTerminate
	for _, tc := range []struct {
		name   string
		op     string
		status int
		code   string
		want   provider.Kind
		scope  string
		maybe  bool
	}{
		{"no capacity", launch, 400, "instance-operations/launch/insufficient-capacity", provider.NoCapacity, "pool", false},
		{"no capacity, whatever the status", launch, 500, "instance-operations/launch/insufficient-capacity", provider.NoCapacity, "pool", false},
		{"a file system elsewhere", launch, 400, "instance-operations/launch/file-system-in-wrong-region", provider.Invalid, "", false},
		{"quota", launch, 400, "global/quota-exceeded", provider.Quota, "account", false},
		{"a wrong request", launch, 400, "global/invalid-parameters", provider.Invalid, "", false},
		{"a wrong key", launch, 403, "global/invalid-api-key", provider.Auth, "account", false},
		{"a wrong key, reading", read, 401, "global/invalid-api-key", provider.Auth, "account", false},
		{"an account that is not active", launch, 403, "global/account-inactive", provider.Auth, "account", false},
		{"a type or key that is not there", launch, 404, "global/object-does-not-exist", provider.Invalid, "", false},
		{"an instance that is gone", end, 404, "global/object-does-not-exist", provider.NotFound, "", false},
		{"a duplicate", launch, 400, "global/duplicate", provider.Conflict, "", false},
		{"too fast", launch, 429, "", provider.Throttled, "seller", false},
		{"too fast, with a code", read, 429, "global/something", provider.Throttled, "seller", false},
		{"no key, without a code", read, 401, "", provider.Auth, "account", false},
		{"no funds", launch, 402, "", provider.Auth, "account", false},
		{"a code that nobody knows", launch, 400, "global/new", provider.Invalid, "", false},
		{"a conflict without a code", launch, 409, "", provider.Conflict, "", false},
		{"nothing there, without a code", end, 404, "", provider.NotFound, "", false},
		{"no such path", launch, 404, "", provider.Invalid, "", false},
		{"trouble while launching", launch, 500, "", provider.UnknownOutcome, "seller", true},
		{"a gateway while launching", launch, 504, "", provider.UnknownOutcome, "seller", true},
		{"an error with status 200, while launching", launch, 200, "global/new", provider.UnknownOutcome, "seller", true},
		{"trouble while reading", read, 503, "", provider.Transient, "seller", false},
		{"a redirect", read, 301, "", provider.Transient, "seller", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			e := classify(tc.op, tc.status, fault{Code: "", Message: "m", Suggestion: "s"}.with(tc.code))
			if e.Kind != tc.want || e.Scope != tc.scope || e.MaybeCreated != tc.maybe || e.Code == "" || e.Op != tc.op || e.Message != "m (s)" {
				t.Errorf("classify = %+v; want %s, scope %q, maybe created %v", e, tc.want, tc.scope, tc.maybe)
			}
		})
	}
}

func TestStatusesOfAnInstance(t *testing.T) {
	t.Parallel()
	for status, want := range map[string]struct {
		state provider.State
		by    string
	}{
		"booting": {provider.Pending, ""}, "active": {provider.Running, ""}, "unhealthy": {provider.Running, ""},
		"terminating": {provider.Stopping, "us"}, "terminated": {provider.Gone, "us"}, "preempted": {provider.Gone, "seller"},
		"": {provider.Running, ""}, "hibernating": {provider.Running, ""},
	} {
		if s, by := stateOf(status); s != want.state || by != want.by {
			t.Errorf("%q is %s by %q, want %s by %q", status, s, by, want.state, want.by)
		}
	}
}

func TestGPUsByTheirDescription(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		gpu, words, model, form string
		known                   bool
	}{
		{"A10 (24 GB PCIe)", "1x A10 (24 GB PCIe)", "A10", "", true},
		{"A100 (40 GB SXM4)", "", "A100", "SXM", true},
		{"A100 (80 GB SXM4)", "", "A100-80GB", "SXM", true},
		{"A100 (40 GB PCIe)", "", "A100", "PCIE", true},
		{"H100 (80 GB SXM5)", "", "H100", "SXM", true},
		{"H100 (80 GB PCIe)", "", "H100", "PCIE", true},
		{"", "8x H100 (80 GB SXM5)", "H100", "SXM", true},
		{"GH200 (96 GB)", "", "GH200", "", true},
		{"B200 (180 GB SXM6)", "", "B200", "", true},
		{"Tesla V100 (16 GB)", "", "V100", "", true},
		{"N/A", "", "N/A", "", false},
		{"", "", "", "", false},
		{"A100 (many GB SXM4)", "", "A100", "SXM4", false},
	} {
		if g := gpuOf(tc.gpu, tc.words); g.Model != tc.model || g.Form != tc.form || g.Known() != tc.known {
			t.Errorf("%q %q is %+v, want %s %s", tc.gpu, tc.words, g, tc.model, tc.form)
		}
	}
}

func (f fault) with(code string) fault {
	f.Code = wire.Text(code)
	return f
}
