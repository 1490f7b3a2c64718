package lambda

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/bidder/provider/keyless"
	"github.com/spotferry/spotferry/bidder/provider/wire"
	"github.com/spotferry/spotferry/events"
)

// Tags of our instances. A record is cut into pieces, since a tag holds little.
const (
	tagMark   = "spotferry-mark"
	tagRecord = "spotferry-record-"
	pieceLen  = 128
	pieces    = 24
)

// tag is a word that an instance carries.
type tag struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// tagsOf are those of a machine. Their keys are of a-z, 0-9, - and :.
func tagsOf(r keyless.Record) ([]tag, error) {
	packed, err := r.Pack()
	if err != nil {
		return nil, err
	}
	if len(packed) > pieces*pieceLen {
		return nil, fmt.Errorf("labels: the record of the purchase has %d characters, and %d fit into an instance's tags: shorten the labels", len(packed), pieces*pieceLen)
	}
	tags := []tag{{tagMark, r.Mark}}
	for n := 0; packed != ""; n++ {
		piece := packed[:min(len(packed), pieceLen)]
		packed = packed[len(piece):]
		tags = append(tags, tag{fmt.Sprintf("%s%d", tagRecord, n), piece})
	}
	return tags, nil
}

// recordOf reads what tagsOf wrote.
func recordOf(tags map[string]string) (keyless.Record, error) {
	var packed strings.Builder
	for n := range pieces {
		piece, ok := tags[fmt.Sprintf("%s%d", tagRecord, n)]
		if !ok {
			break
		}
		packed.WriteString(piece)
	}
	return keyless.Unpack(packed.String())
}

// shop is the client as the desk uses it.
type shop struct{ *Client }

// launch is the body of a purchase.
type launch struct {
	Region   string   `json:"region_name"`
	Type     string   `json:"instance_type_name"`
	SSHKeys  []string `json:"ssh_key_names"`
	Name     string   `json:"name"`
	UserData string   `json:"user_data"`
	Tags     []tag    `json:"tags"`
}

// Buy implements keyless.Shop.
func (s shop) Buy(ctx context.Context, spec provider.LaunchSpec, r keyless.Record) (events.InstanceID, keyless.Record, error) {
	o, err := s.quote(ctx, spec)
	if err != nil {
		return "", r, err
	}
	if err := s.launches.Wait(ctx, provider.OpLaunch); err != nil {
		return "", r, err
	}
	r = r.At(s.cfg.Now())
	r.Price, r.Terms = o.Price, o.Terms
	tags, err := tagsOf(r)
	if err != nil {
		return "", r, refusal(spec.Pool, provider.Invalid, "labels", err.Error())
	}
	var made struct {
		IDs []wire.Text `json:"instance_ids"`
	}
	err = s.call(ctx, provider.OpLaunch, http.MethodPost, "/instance-operations/launch", launch{
		Region: spec.Pool.Region, Type: spec.Pool.InstanceType, SSHKeys: []string{s.cfg.SSHKey}, Name: r.Token,
		UserData: s.userData(spec.UserData), Tags: tags,
	}, &made)
	if e, ok := errors.AsType[*provider.Error](err); ok && e.Scope == "pool" {
		e.Pool = &spec.Pool
	}
	if err == nil && (len(made.IDs) != 1 || made.IDs[0].Name() == "") {
		err = wire.Garbled(provider.OpLaunch, wire.Answer{Status: http.StatusOK}, fmt.Errorf("bought one machine, and %d are named", len(made.IDs)))
	}
	if err != nil {
		return "", r, err
	}
	return events.InstanceID(made.IDs[0]), r, nil
}

// userData is a cloud-config: plain text, as Lambda wants it.
func (s shop) userData(data []byte) string {
	return "#cloud-config\nwrite_files:\n- path: /etc/spotferry/bootstrap.json\n  permissions: '0600'\n  encoding: b64\n  content: " +
		base64.StdEncoding.EncodeToString(data) + "\n" + s.cfg.CloudConfig
}

// quote is what the pool costs now. One that looks too dear, or is not there, is looked up again.
func (c *Client) quote(ctx context.Context, spec provider.LaunchSpec) (events.Offer, error) {
	o, known := c.quoted(spec.Pool)
	if !known || !o.Fresh(c.cfg.Now().Control) || o.Price > spec.MaxPrice {
		if _, err := c.look(ctx); err != nil {
			return o, keyless.NotBought(err)
		}
		o, known = c.quoted(spec.Pool)
	}
	switch {
	case !known:
		return o, refusal(spec.Pool, provider.OfferGone, "not listed", "nothing is sold in "+spec.Pool.String()+": ask for offers again")
	case o.Price > spec.MaxPrice:
		return o, refusal(spec.Pool, provider.PriceTooLow, "list price", "the price is "+o.Price.String())
	}
	return o, nil
}

func (c *Client) quoted(p events.Pool) (events.Offer, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	o, ok := c.quotes[p]
	return o, ok
}

func refusal(p events.Pool, k provider.Kind, code, why string) *provider.Error {
	return &provider.Error{Kind: k, Op: provider.OpLaunch, Scope: "pool", Pool: &p, Code: code, Message: why}
}

// Destroy implements keyless.Shop.
func (s shop) Destroy(ctx context.Context, id events.InstanceID) error {
	var done struct {
		Terminated []json.RawMessage `json:"terminated_instances"`
	}
	return s.call(ctx, provider.OpTerminate, http.MethodPost, "/instance-operations/terminate", map[string]any{"instance_ids": []string{string(id)}}, &done)
}

// machine is an instance in a list.
type machine struct {
	ID     wire.Text `json:"id"`
	Name   wire.Text `json:"name"`
	Status wire.Text `json:"status"`
	Region region    `json:"region"`
	Type   kind      `json:"instance_type"`
	Tags   []struct {
		Key   wire.Text `json:"key"`
		Value wire.Text `json:"value"`
	} `json:"tags"`
}

// Look implements keyless.Shop. One answer holds everything.
func (s shop) Look(ctx context.Context) (keyless.Look, error) {
	var rows []json.RawMessage
	if err := s.call(ctx, provider.OpList, http.MethodGet, "/instances", nil, &rows); err != nil {
		return keyless.Look{}, err
	}
	l := keyless.Look{Complete: true}
	for _, raw := range rows {
		var m machine
		if err := json.Unmarshal(raw, &m); err != nil {
			s.cfg.Log.Warn("a row of the list cannot be read", zap.Error(err))
			l.Complete = false
			continue
		}
		tags := map[string]string{}
		for _, t := range m.Tags {
			tags[string(t.Key)] = string(t.Value)
		}
		if tags[tagMark] != s.cfg.Mark || events.CheckToken("name", string(m.Name)) != nil {
			continue
		}
		if m.ID.Name() == "" {
			l.Complete = false
			continue
		}
		l.Sights = append(l.Sights, s.sight(m, tags))
	}
	return l, nil
}

func (s shop) sight(m machine, tags map[string]string) keyless.Sight {
	state, by := stateOf(string(m.Status))
	price, _ := m.Type.Cents.Scaled(int64(cent))
	r, err := recordOf(tags)
	if err != nil || r.Token != string(m.Name) || r.Mark != s.cfg.Mark {
		s.cfg.Log.Warn("an instance of ours carries no record of its purchase", zap.String("instance", string(m.ID)), zap.Error(err))
		where := m.Region.Name.Name()
		pool := events.Pool{Seller: s.cfg.Seller, Region: where, Zone: where, InstanceType: m.Type.Name.Name(), Capacity: events.OnDemand, Gang: 1}
		r = keyless.Bare(string(m.Name), s.cfg.Mark, pool, time.Time{})
		r.Price = events.PerInstanceHour(price)
	}
	return keyless.Sight{ID: events.InstanceID(m.ID), State: state, EndedBy: by, Price: events.PerInstanceHour(price), Record: r}
}

// stateOf says what a status means, and who ended what is ending. Nobody but the
// account ends a machine of Lambda's, unless it is preempted.
func stateOf(status string) (provider.State, string) {
	switch status {
	case "booting":
		return provider.Pending, ""
	case "terminating":
		return provider.Stopping, "us"
	case "terminated":
		return provider.Gone, "us"
	case "preempted":
		return provider.Gone, "seller"
	}
	return provider.Running, "" // active, unhealthy, and what we do not know: it costs money
}
