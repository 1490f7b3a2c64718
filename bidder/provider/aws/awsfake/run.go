package awsfake

import (
	"context"
	"encoding/base64"
	"encoding/xml"
	"fmt"
	"net/http"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/events"
)

// runInstances launches one machine.
func (s *Server) runInstances(ctx context.Context, q query) (any, error) {
	if len(q.tags()) > 0 {
		s.count("ec2:CreateTags")
	}
	spec, err := s.spec(ctx, q)
	if err != nil {
		return nil, err
	}
	if q.get("DryRun") == "true" {
		return nil, &fault{http.StatusPreconditionFailed, "DryRunOperation", "Request would have succeeded, but DryRun flag is set."}
	}
	token := q.get("ClientToken")
	if token == "" {
		s.mu.Lock()
		s.sequence++
		token = fmt.Sprintf("untokened-%d", s.sequence)
		s.mu.Unlock()
	}
	done, err := s.turn(ctx, q.region+" "+token)
	if err != nil {
		return nil, provider.Unanswered(provider.OpLaunch, err)
	}
	defer done()
	i, err := s.launch(ctx, q, spec, token)
	if err != nil {
		return nil, err
	}
	m := s.view(i)
	m.Image = q.get("ImageId")
	return struct {
		XMLName     xml.Name  `xml:"answer"`
		Reservation string    `xml:"reservationId"`
		Instances   []machine `xml:"instancesSet>item"`
	}{Reservation: "r-" + hash(token)[:17], Instances: []machine{m}}, nil
}

// launch buys from the seller behind, once for a token.
func (s *Server) launch(ctx context.Context, q query, spec provider.LaunchSpec, token string) (provider.Instance, error) {
	key, parameters := q.region+" "+token, hash(q.form.Encode())
	s.mu.Lock()
	before, repeated := s.tokens[key]
	s.mu.Unlock()
	if repeated && before != parameters {
		return provider.Instance{}, &fault{http.StatusBadRequest, "IdempotentParameterMismatch", "The client token was used with other parameters."}
	}
	i, err := s.cfg.Backend.Launch(ctx, spec, token)
	if err != nil {
		return i, err
	}
	s.mu.Lock()
	s.tokens[key] = parameters
	s.ours[string(i.ID)] = true
	s.mu.Unlock()
	s.notePrices(i)
	if i.State == provider.Gone && s.cfg.EndedTokens {
		return i, &fault{http.StatusBadRequest, "IdempotentInstanceTerminated", "The instance of this client token has been terminated."}
	}
	return i, nil
}

// spec is the request in the terms of the seller behind.
func (s *Server) spec(ctx context.Context, q query) (provider.LaunchSpec, error) {
	invalid := func(code, message string) (provider.LaunchSpec, error) {
		return provider.LaunchSpec{}, &fault{http.StatusBadRequest, code, message}
	}
	if q.get("MinCount") != "1" || q.get("MaxCount") != "1" {
		return invalid("InvalidParameterValue", "one machine at a time")
	}
	if q.get("ImageId") == "" {
		return invalid("MissingParameter", "The request must contain the parameter ImageId")
	}
	capacity, most := events.OnDemand, events.PerInstanceHour(1<<62)
	if q.get("InstanceMarketOptions.MarketType") == "spot" {
		capacity = events.Spot
		var err error
		if most, err = dollars(q.get("InstanceMarketOptions.SpotOptions.MaxPrice")); err != nil {
			return provider.LaunchSpec{}, err
		}
	}
	data, err := base64.StdEncoding.DecodeString(q.get("UserData"))
	if err != nil || len(data) > 16<<10 {
		return invalid("InvalidUserData.Malformed", "Invalid BASE64 encoding of user data, or more than 16 KB.")
	}
	zone, err := s.placement(ctx, q)
	if err != nil {
		return provider.LaunchSpec{}, err
	}
	offers, err := s.offers(ctx)
	if err != nil {
		return provider.LaunchSpec{}, err
	}
	for _, o := range offers {
		if p := o.Pool; p.Region == q.region && p.Zone == zone && p.InstanceType == q.get("InstanceType") && p.Capacity == capacity {
			return provider.LaunchSpec{Pool: p, MaxPrice: most, UserData: data, Labels: q.tags()}, nil
		}
	}
	return invalid("Unsupported", "Your requested instance type is not supported in your requested Availability Zone.")
}

// placement is the zone asked for, by name or by id. A subnet's zone is its name's
// end: subnet-<zone id>.
func (s *Server) placement(ctx context.Context, q query) (string, error) {
	if _, err := s.offers(ctx); err != nil { // the zones are known from them
		return "", err
	}
	if id := q.get("Placement.AvailabilityZoneId"); id != "" {
		return id, nil
	}
	if subnet := q.get("SubnetId"); len(subnet) > len("subnet-") {
		return subnet[len("subnet-"):], nil
	}
	name := q.get("Placement.AvailabilityZone")
	if zone := s.zoneNamed(q.region, name); zone != "" {
		return zone, nil
	}
	return "", &fault{http.StatusBadRequest, "InvalidParameterValue", fmt.Sprintf("Invalid availability zone: [%s]", name)}
}
