package awsfake

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/events"
)

type tag struct {
	Key   string `xml:"key"`
	Value string `xml:"value"`
}

type stateXML struct {
	Code int    `xml:"code"`
	Name string `xml:"name"`
}

type reason struct {
	Code    string `xml:"code"`
	Message string `xml:"message"`
}

type machine struct {
	ID         string   `xml:"instanceId"`
	Image      string   `xml:"imageId,omitempty"`
	State      stateXML `xml:"instanceState"`
	Transition string   `xml:"reason"`
	Type       string   `xml:"instanceType"`
	Launched   string   `xml:"launchTime"`
	Zone       string   `xml:"placement>availabilityZone"`
	ZoneID     string   `xml:"placement>availabilityZoneId"`
	Why        *reason  `xml:"stateReason"`
	Lifecycle  string   `xml:"instanceLifecycle,omitempty"`
	Token      string   `xml:"clientToken"`
	Tags       []tag    `xml:"tagSet>item"`
}

// states are EC2's codes and names.
var states = map[provider.State]stateXML{
	provider.Pending: {0, "pending"}, provider.Running: {16, "running"},
	provider.Stopping: {32, "shutting-down"}, provider.Gone: {48, "terminated"},
}

// reasons are why a machine ended, by whom.
var reasons = map[string]reason{
	"seller":  {"Server.SpotInstanceTermination", "Server.SpotInstanceTermination: Instance terminated by Spot"},
	"us":      {"Client.UserInitiatedShutdown", "Client.UserInitiatedShutdown: User initiated shutdown"},
	"machine": {"Client.InstanceInitiatedShutdown", "Client.InstanceInitiatedShutdown: Instance initiated shutdown"},
	"fault":   {"Server.InternalError", "Server.InternalError: Internal error on launch"},
}

// view is a machine as EC2 shows it.
func (s *Server) view(i provider.Instance) machine {
	s.mu.Lock()
	zone := s.name(i.Pool.Region, i.Pool.Zone)
	s.mu.Unlock()
	m := machine{
		ID: string(i.ID), State: states[i.State], Type: i.Pool.InstanceType, Launched: i.Started.UTC().Format(time.RFC3339Nano),
		Zone: zone, ZoneID: i.Pool.Zone, Token: i.Token,
	}
	if i.Pool.Capacity.Reclaimable() {
		m.Lifecycle = "spot"
	}
	for _, k := range slices.Sorted(maps.Keys(i.Labels)) {
		m.Tags = append(m.Tags, tag{k, i.Labels[k]})
	}
	if i.State == provider.Gone {
		why := reasons[i.EndedBy]
		m.Why = &why
		who := "User"
		if i.EndedBy == "seller" || i.EndedBy == "fault" {
			who = "Service"
		}
		m.Transition = fmt.Sprintf("%s initiated (%s)", who, i.Ended.UTC().Format("2006-01-02 15:04:05.999999999 GMT"))
	}
	return m
}

func (s *Server) terminateInstances(ctx context.Context, q query) (any, error) {
	type change struct {
		ID      string   `xml:"instanceId"`
		Now     stateXML `xml:"currentState"`
		Earlier stateXML `xml:"previousState"`
	}
	listing, err := s.cfg.Backend.List(ctx)
	if err != nil {
		return nil, err
	}
	answer := struct {
		XMLName   xml.Name `xml:"answer"`
		Instances []change `xml:"instancesSet>item"`
	}{}
	for _, id := range q.list("InstanceId") {
		// A machine that was just bought is missing from lists and can be terminated all the same.
		known := slices.IndexFunc(listing.Instances, func(i provider.Instance) bool { return string(i.ID) == id })
		if known < 0 && !s.sold(id) {
			return nil, &fault{http.StatusBadRequest, "InvalidInstanceID.NotFound", fmt.Sprintf("The instance ID '%s' does not exist", id)}
		}
		if err := s.cfg.Backend.Terminate(ctx, events.InstanceID(id)); err != nil {
			return nil, err
		}
		answer.Instances = append(answer.Instances, change{id, states[provider.Stopping], states[provider.Running]})
	}
	return answer, nil
}

func (s *Server) describeInstances(ctx context.Context, q query) (any, error) {
	if q.get("NextToken") == brokenToken {
		return nil, &fault{http.StatusInternalServerError, "InternalError", "An internal error has occurred"}
	}
	listing, err := s.cfg.Backend.List(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := s.offers(ctx); err != nil { // names of zones come from them
		return nil, err
	}
	var shown []machine
	for _, i := range listing.Instances {
		s.notePrices(i)
		if i.Pool.Region == q.region && !s.forgotten(i) && passes(i, q.filters()) {
			shown = append(shown, s.view(i))
		}
	}
	from, to, next, err := q.page(len(shown), s.cfg.Page)
	if err != nil {
		return nil, err
	}
	if !listing.Complete { // the rest cannot be read
		from, to, next = 0, len(shown), brokenToken
	}
	type reservation struct {
		ID        string    `xml:"reservationId"`
		Instances []machine `xml:"instancesSet>item"`
	}
	answer := struct {
		XMLName xml.Name      `xml:"answer"`
		Sets    []reservation `xml:"reservationSet>item"`
		Next    string        `xml:"nextToken"`
	}{Next: next}
	for _, m := range shown[from:to] {
		answer.Sets = append(answer.Sets, reservation{"r-" + hash(m.Token)[:17], []machine{m}})
	}
	return answer, nil
}

// brokenToken is that of a page which is never to be had.
const brokenToken = "bm90aGluZw=="

// passes says whether a machine is what the filters ask for.
func passes(i provider.Instance, filters map[string][]string) bool {
	for name, values := range filters {
		var has string
		switch {
		case name == "instance-id":
			has = string(i.ID)
		case name == "client-token":
			has = i.Token
		case len(name) > 4 && name[:4] == "tag:":
			has = i.Labels[name[4:]]
		}
		if has == "" || !slices.Contains(values, has) {
			return false
		}
	}
	return true
}

// forgotten says whether a machine ended so long ago that it is not listed any more.
func (s *Server) forgotten(i provider.Instance) bool {
	if i.State != provider.Gone {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.cfg.Now().Control
	first, ok := s.ended[string(i.ID)]
	if !ok {
		first = now
		s.ended[string(i.ID)] = now
	}
	return now.Sub(first) > s.cfg.Remember
}

func (s *Server) sold(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ours[id]
}

func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}
