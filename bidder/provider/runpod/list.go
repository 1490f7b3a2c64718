package runpod

import (
	"bytes"
	"context"
	"encoding/json"
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

// pod is one in a list.
type pod struct {
	ID     wire.Text       `json:"id"`
	Name   wire.Text       `json:"name"`
	Status wire.Text       `json:"status"`
	Cost   wire.Number     `json:"cost"` // dollars an hour
	Place  wire.Text       `json:"dataCenterId"`
	Env    json.RawMessage `json:"env"`
}

// Look implements keyless.Shop. One answer holds everything.
func (s shop) Look(ctx context.Context) (keyless.Look, error) {
	var body json.RawMessage
	if err := s.rest(ctx, provider.OpList, http.MethodGet, "/v2/pods", nil, &body); err != nil {
		return keyless.Look{}, err
	}
	rows, err := podsOf(body)
	if err != nil {
		return keyless.Look{}, wire.Garbled(provider.OpList, wire.Answer{Status: http.StatusOK, Body: body}, err)
	}
	l := keyless.Look{Complete: true}
	for _, raw := range rows {
		var p pod
		if err := json.Unmarshal(raw, &p); err != nil {
			s.cfg.Log.Warn("a row of the list cannot be read", zap.Error(err))
			l.Complete = false
			continue
		}
		token, ours := strings.CutPrefix(string(p.Name), s.nameStart())
		if !ours || events.CheckToken("name", token) != nil {
			continue
		}
		if p.ID.Name() == "" {
			l.Complete = false
			continue
		}
		l.Sights = append(l.Sights, s.sight(p, token))
	}
	return l, nil
}

// podsOf reads a list of pods, which may stand alone or in an object.
func podsOf(body json.RawMessage) ([]json.RawMessage, error) {
	var rows *[]json.RawMessage
	err := error(nil)
	if bytes.HasPrefix(bytes.TrimSpace(body), []byte("[")) {
		err = json.Unmarshal(body, &rows)
	} else {
		var object struct {
			Pods *[]json.RawMessage `json:"pods"`
		}
		err = json.Unmarshal(body, &object)
		rows = object.Pods
	}
	if err == nil && rows == nil {
		err = errNoData
	}
	if err != nil {
		return nil, fmt.Errorf("a list of pods: %w", err)
	}
	return *rows, nil
}

func (s shop) sight(p pod, token string) keyless.Sight {
	price, _ := p.Cost.Scaled(int64(events.DollarPerHour))
	var env map[string]wire.Text
	err := json.Unmarshal(p.Env, &env)
	r := keyless.Record{}
	if err == nil {
		r, err = keyless.Unpack(string(env[envRecord]))
	}
	if err != nil || r.Token != token || r.Mark != s.cfg.Mark {
		s.cfg.Log.Warn("a pod of ours carries no record of its purchase", zap.String("instance", string(p.ID)), zap.Error(err))
		r = keyless.Bare(token, s.cfg.Mark, events.Pool{Seller: s.cfg.Seller, Region: p.Place.Name(), Zone: p.Place.Name(), Gang: 1}, time.Time{})
		r.Price = events.PerInstanceHour(price)
	}
	state, by := stateOf(string(p.Status), r.Pool.Capacity)
	return keyless.Sight{ID: events.InstanceID(p.ID), State: state, EndedBy: by, Price: events.PerInstanceHour(price), Record: r}
}

// stateOf says what a status means, and who ended what is ending: an interruptible
// pod exits when it is taken, another when its program ends.
func stateOf(status string, terms events.CapacityType) (provider.State, string) {
	switch status {
	case "PROVISIONING", "STARTING":
		return provider.Pending, ""
	case "EXITED":
		if terms == events.Bid {
			return provider.Stopping, "seller"
		}
		return provider.Stopping, "machine"
	case "ERROR":
		return provider.Stopping, "fault"
	case "TERMINATED":
		return provider.Gone, "seller" // unless we asked for it
	}
	return provider.Running, "" // and what we do not know: it costs money
}
