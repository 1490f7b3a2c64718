package gcp

import (
	"encoding/json"
	"errors"
	"time"

	"google.golang.org/api/compute/v1"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/events"
)

// Keys of a machine's metadata.
const (
	userDataKey = "user-data"
	factsKey    = "spotferry"
)

// maxMetadata is the most that one key may hold.
const maxMetadata = 256 << 10

// facts is what a machine carries of itself, so that a list can tell it without
// any record of ours. It has no secrets: the machine can read it.
type facts struct {
	Token  string                 `json:"token"`
	Mark   string                 `json:"mark"`
	Pool   events.Pool            `json:"pool"`
	Price  events.PerInstanceHour `json:"price"`
	Terms  events.Terms           `json:"terms"`
	Labels map[string]string      `json:"labels,omitempty"`
	Digest string                 `json:"digest"` // of what was asked for
}

var errFacts = errors.New("its metadata does not say what it was bought as")

// factsOf reads what a machine carries. What is there of another environment, or
// was copied from another machine, is not its own.
func (c *Client) factsOf(i *compute.Instance) (facts, error) {
	var f facts
	if i.Metadata == nil {
		return f, errFacts
	}
	for _, item := range i.Metadata.Items {
		if item == nil || item.Key != factsKey || item.Value == nil {
			continue
		}
		if err := json.Unmarshal([]byte(*item.Value), &f); err != nil {
			return facts{}, errFacts
		}
	}
	if f.Mark != c.cfg.Mark || f.Token == "" || c.names.Of(f.Token) != i.Name {
		return facts{}, errFacts
	}
	return f, nil
}

// instance is a machine that exists in our terms. A machine of ours whose metadata
// cannot be read is told with what its name says: it costs money all the same.
func (c *Client) instance(zone string, i *compute.Instance) provider.Instance {
	out := provider.Instance{
		ID: instanceID(zone, i.Name), Token: c.names.Token(i.Name), State: stateOf(i.Status), Started: moment(i.CreationTimestamp),
		Pool: events.Pool{Seller: c.cfg.Seller, Region: regionOf(zone), Zone: zone, InstanceType: last(i.MachineType), Capacity: capacityOf(i), Gang: 1},
	}
	if f, err := c.factsOf(i); err == nil {
		out.Token, out.Terms, out.Labels = f.Token, f.Terms, f.Labels
		out.Pool.InstanceType, out.Pool.Capacity = f.Pool.InstanceType, f.Pool.Capacity
		if f.Price > 0 {
			out.Prices = []events.PriceFrom{{From: out.Started, Price: f.Price}}
		}
	}
	if out.State == provider.Gone {
		out.Ended, out.EndedBy, out.Remains = moment(i.LastStopTimestamp), "us", true
	}
	return out
}

func capacityOf(i *compute.Instance) events.CapacityType {
	if s := i.Scheduling; s != nil && (s.ProvisioningModel == "SPOT" || s.Preemptible) {
		return events.Spot
	}
	return events.OnDemand
}

// stateOf is a status in our terms. A machine that is suspended, repaired or in a
// state unheard of is one that we still answer for.
func stateOf(status string) provider.State {
	switch status {
	case "", "PROVISIONING", "STAGING", "PENDING":
		return provider.Pending
	case "STOPPING", "PENDING_STOP", "SUSPENDING", "SUSPENDED", "DEPROVISIONING":
		return provider.Stopping
	case "TERMINATED", "STOPPED":
		return provider.Gone
	}
	return provider.Running
}

// moment reads a time; one that cannot be read is the zero time.
func moment(s string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return time.Time{}
	}
	return t.UTC()
}
