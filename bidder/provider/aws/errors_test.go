package aws

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/spotferry/spotferry/bidder/provider"
)

// answered is an error as EC2's client returns it.
func answered(status int, code, message string) error {
	var inner error = &smithy.GenericAPIError{Code: code, Message: message}
	if code == "" {
		inner = errors.New("expected element type <Response> but have <html>")
	}
	return &smithy.OperationError{ServiceID: "EC2", OperationName: "RunInstances", Err: &smithyhttp.ResponseError{
		Response: &smithyhttp.Response{Response: &http.Response{StatusCode: status}}, Err: inner,
	}}
}

// TestEveryCodeMeansWhatItSays has each code that is known to come, as a launch
// and as a look: they differ where a machine may have been made.
func TestEveryCodeMeansWhatItSays(t *testing.T) {
	t.Parallel()
	const (
		noCapacity = provider.NoCapacity
		quota      = provider.Quota
		throttled  = provider.Throttled
		auth       = provider.Auth
		invalid    = provider.Invalid
		transient  = provider.Transient
		unknown    = provider.UnknownOutcome
	)
	for _, tc := range []struct {
		code         string
		status       int
		launch, look provider.Kind
		scope        string
	}{
		{"InsufficientInstanceCapacity", 500, noCapacity, noCapacity, "pool"},
		{"InsufficientInstanceCapacity", 400, noCapacity, noCapacity, "pool"},
		{"UnfulfillableCapacity", 400, noCapacity, noCapacity, "pool"},
		{"InsufficientReservedInstanceCapacity", 400, noCapacity, noCapacity, "pool"},
		{"InsufficientHostCapacity", 400, noCapacity, noCapacity, "pool"},
		{"Unsupported", 400, noCapacity, noCapacity, "pool"},
		{"SpotMaxPriceTooLow", 400, provider.PriceTooLow, provider.PriceTooLow, "pool"},
		{"MaxSpotInstanceCountExceeded", 400, quota, quota, "region"},
		{"VcpuLimitExceeded", 400, quota, quota, "region"},
		{"InstanceLimitExceeded", 400, quota, quota, "region"},
		{"VolumeLimitExceeded", 400, quota, quota, "region"},
		{"SnapshotLimitExceeded", 400, quota, quota, "region"},
		{"RequestLimitExceeded", 503, throttled, throttled, "region"},
		{"Throttling", 400, throttled, throttled, "region"},
		{"AuthFailure", 401, auth, auth, "region"},
		{"UnauthorizedOperation", 403, auth, auth, "account"},
		{"OptInRequired", 401, auth, auth, "region"},
		{"Blocked", 403, auth, auth, "account"},
		{"PendingVerification", 403, auth, auth, "account"},
		{"ExpiredToken", 400, auth, auth, "account"},
		{"RequestExpired", 400, auth, auth, "account"},
		{"InvalidClientTokenId", 403, auth, auth, "account"},
		{"InvalidAMIID.NotFound", 400, invalid, invalid, ""},
		{"InvalidAMIID.Malformed", 400, invalid, invalid, ""},
		{"InvalidParameterValue", 400, invalid, invalid, ""},
		{"InvalidParameterCombination", 400, invalid, invalid, ""},
		{"InvalidSubnetID.NotFound", 400, invalid, invalid, ""},
		{"InvalidInstanceType", 400, invalid, invalid, ""},
		{"IdempotentParameterMismatch", 400, provider.Conflict, provider.Conflict, "pool"},
		{"IdempotentInstanceTerminated", 400, provider.Conflict, provider.Conflict, "pool"},
		{"InternalError", 500, unknown, transient, "region"},
		{"Unavailable", 503, unknown, transient, "region"},
		{"ServiceUnavailable", 503, unknown, transient, "region"},
		{"", 500, unknown, transient, "region"},
		{"", 502, unknown, transient, "region"},
		{"UnknownError", 504, unknown, transient, "region"},
		{"", 429, throttled, throttled, "region"},
		{"SomethingNew", 400, unknown, transient, "region"},
		{"SomethingNew", 500, unknown, transient, "region"},
		{"DryRunOperation", 412, invalid, invalid, ""}, // to a call that was none
		{"InvalidInstanceID.NotFound", 400, provider.NotFound, provider.NotFound, ""},
	} {
		t.Run(fmt.Sprintf("%s with %d", tc.code, tc.status), func(t *testing.T) {
			t.Parallel()
			err := answered(tc.status, tc.code, "words of EC2")
			for op, want := range map[string]provider.Kind{provider.OpLaunch: tc.launch, provider.OpList: tc.look} {
				e := classify(op, err)
				if e.Kind != want || e.Op != op || e.Scope != tc.scope {
					t.Errorf("%s: kind %s, op %q, scope %q; want %s, scope %q", op, e.Kind, e.Op, e.Scope, want, tc.scope)
				}
				if e.Code == "" || e.Error() == "" {
					t.Errorf("%s: no code: %v", op, e)
				}
				if e.MaybeCreated != (op == provider.OpLaunch && want == provider.UnknownOutcome) {
					t.Errorf("%s: maybe created is %v", op, e.MaybeCreated)
				}
			}
		})
	}
	if !wouldHaveWorked(answered(412, "DryRunOperation", "would have succeeded")) || wouldHaveWorked(answered(403, "UnauthorizedOperation", "")) {
		t.Error("only DryRunOperation says that a dry run would have worked")
	}
}

func TestABrokenCallIsJudgedByHowItBroke(t *testing.T) {
	t.Parallel()
	wrap := func(err error) error {
		return &smithy.OperationError{ServiceID: "EC2", OperationName: "RunInstances", Err: &smithyhttp.RequestSendError{Err: err}}
	}
	for _, tc := range []struct {
		name         string
		err          error
		launch, look provider.Kind
		heldBack     bool
	}{
		{"reset after it was sent", wrap(&net.OpError{Op: "read", Err: errors.New("connection reset by peer")}), provider.UnknownOutcome, provider.Transient, false},
		{"nobody listens", wrap(&net.OpError{Op: "dial", Err: errors.New("connection refused")}), provider.Transient, provider.Transient, true},
		{"no such host", wrap(&net.DNSError{Err: "no such host", Name: "ec2.example"}), provider.Transient, provider.Transient, true},
		{"the caller's time is up", wrap(context.DeadlineExceeded), provider.UnknownOutcome, provider.Transient, false},
		{"another document", wrap(&replyError{"a document"}), provider.UnknownOutcome, provider.Transient, false},
		{"something else", errors.New("?"), provider.UnknownOutcome, provider.Transient, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			e := classify(provider.OpLaunch, tc.err)
			if e.Kind != tc.launch || e.MaybeCreated != (tc.launch == provider.UnknownOutcome) || errors.Is(e, provider.ErrHeldBack) != tc.heldBack {
				t.Errorf("a launch: %s, maybe created %v, %v", e.Kind, e.MaybeCreated, e)
			}
			if e := classify(provider.OpList, tc.err); e.Kind != tc.look || e.MaybeCreated {
				t.Errorf("a look: %s, maybe created %v", e.Kind, e.MaybeCreated)
			}
		})
	}
}

func TestMessagesFitALogLine(t *testing.T) {
	t.Parallel()
	long := "You are not authorized to perform this operation. Encoded authorization failure message: " + strings.Repeat("x", 2000)
	e := classify(provider.OpLaunch, answered(403, "UnauthorizedOperation", long))
	if e.Message != "You are not authorized to perform this operation." {
		t.Errorf("message %q", e.Message)
	}
	if e := classify(provider.OpList, answered(400, "InvalidParameterValue", strings.Repeat("é\xff", 5000))); len(e.Error()) > 2000 {
		t.Errorf("an error of %d bytes", len(e.Error()))
	}
}
