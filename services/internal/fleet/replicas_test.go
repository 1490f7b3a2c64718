package fleet

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/events/natsbus"
	"github.com/spotferry/spotferry/services/internal/console"
)

// person is a command line on the fleet's bus.
func person(t *testing.T, f *Fleet) *console.Client {
	t.Helper()
	text, err := os.ReadFile(f.Installation().PersonCreds("admin"))
	if err != nil {
		t.Fatal(err)
	}
	creds, err := natsbus.ParseCredentials(string(text))
	if err != nil {
		t.Fatal(err)
	}
	nc, err := natsbus.Connect(f.Installation().Reach(natsbus.ConnConfig{Credentials: creds, Name: "test"}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return console.NewClient(nc, console.Admin, "admin")
}

func ask[T any](t *testing.T, c *console.Client, v console.Verb, q any) T {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	a, err := console.Ask[T](ctx, c, v, q)
	if err != nil {
		t.Fatalf("%s: %v", v, err)
	}
	return a
}

// Two of every service are at each job at once: what one does the other must not do again.
func TestTwoReplicasOfEveryServiceBuyOnceAndChargeOnce(t *testing.T) {
	t.Parallel()
	f := begin(t, 2)
	c := person(t, f)
	const jobs = 4
	var ids []events.JobID
	for n := range jobs {
		id := events.JobID(fmt.Sprintf("job%d", n))
		spec := events.JobSpec{Name: string(id), Run: "sleep 1"}
		spec.Policy.Budget = 50_000_000
		spec.Policy.Spot.Mode = events.OnDemandOnly
		spec.Resources.Accelerators = []events.Accelerator{{Model: "V100", Count: 1}}
		ask[console.Job](t, c, console.DoSubmit, console.SubmitRequest{ID: id, Spec: spec})
		// Whichever replica is asked next knows it.
		for range 8 {
			if j := ask[console.Job](t, c, console.GetJob, console.Query{Job: string(id)}); j.ID != id {
				t.Fatalf("asked for %s, got %+v", id, j)
			}
		}
		ids = append(ids, id)
	}
	for _, id := range ids {
		closed := false
		for deadline := time.Now().Add(time.Minute); !closed && time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
			closed = ask[console.Job](t, c, console.GetJob, console.Query{Job: string(id)}).Closed
		}
		if !closed {
			t.Fatalf("%s is not closed", id)
		}
		count := map[string]int{}
		for _, e := range ask[console.Page](t, c, console.GetEvents, console.Query{Job: string(id), Limit: 1000}).Entries {
			count[e.Type]++
		}
		for _, once := range []string{"job.submitted", "lease.intended", "lease.launched", "lease.ended", "job.placed", "job.ended", "job.closed"} {
			if count[once] != 1 {
				t.Errorf("%s: %d times %s: %v", id, count[once], once, count)
			}
		}
		j := ask[console.Job](t, c, console.GetJob, console.Query{Job: string(id)})
		if j.Status != "succeeded" || j.Reserved != 0 || j.Spent <= 0 {
			t.Errorf("%s ended as %s, %s spent, %s reserved", id, j.Status, j.Spent, j.Reserved)
		}
	}
	if err := f.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}
