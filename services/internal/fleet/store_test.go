package fleet

import (
	"strings"
	"testing"

	"github.com/oklog/ulid/v2"

	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/failover/gateway"
	"github.com/spotferry/spotferry/services/internal/console"
)

// TestAConsoleAsksAGatewayAboutTheStore: what a person asks about checkpoints in
// the store is answered by a program that has it, with each program's rights on the bus.
func TestAConsoleAsksAGatewayAboutTheStore(t *testing.T) {
	t.Parallel()
	c := person(t, begin(t, 1))
	id := events.JobID(strings.ToLower(ulid.Make().String()))
	ask[console.Job](t, c, console.DoSubmit, console.SubmitRequest{ID: id, Spec: events.JobSpec{Name: "n", Run: "true", Policy: events.Policy{Budget: events.Dollar}}})
	q := console.CheckpointQuery{Job: string(id)}
	if u := ask[gateway.Usage](t, c, console.GetCheckpointUse, q); u.Job != id || u.Objects != 0 {
		t.Errorf("%+v", u)
	}
	if a := ask[gateway.Access](t, c, console.GetCheckpointAccess, q); a.Store.Kind != "dir" || a.Store.Path == "" || a.Store.Tenant == "" {
		t.Errorf("%+v", a)
	}
	if got := ask[gateway.Collected](t, c, console.DoCollect, console.CollectRequest{Job: string(id), Reason: "to see"}); got.Job != id {
		t.Errorf("%+v", got)
	}
}
