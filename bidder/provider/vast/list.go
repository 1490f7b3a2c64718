package vast

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/bidder/provider/keyless"
	"github.com/spotferry/spotferry/bidder/provider/wire"
	"github.com/spotferry/spotferry/events"
)

// contract is an instance in a list.
type contract struct {
	ID       wire.Number     `json:"id"`
	Label    wire.Text       `json:"label"`
	Actual   wire.Text       `json:"actual_status"`
	Current  wire.Text       `json:"cur_state"`
	Next     wire.Text       `json:"next_state"`
	Intended wire.Text       `json:"intended_status"`
	Machine  wire.Number     `json:"machine_id"`
	Base     wire.Number     `json:"dph_base"`
	Start    wire.Number     `json:"start_date"`
	Env      json.RawMessage `json:"extra_env"`
}

// mostPages is where a list that does not end is given up.
const mostPages = 10_000

// Look implements keyless.Shop.
func (s shop) Look(ctx context.Context) (keyless.Look, error) {
	l := keyless.Look{Complete: true}
	after := ""
	seen := map[string]bool{}
	for page := 0; ; page++ {
		rows, next, err := s.page(ctx, after)
		if err != nil && page > 0 && ctx.Err() == nil {
			s.cfg.Log.Warn("a page of the list is missing", zap.Int("page", page), zap.Error(err))
			l.Complete = false
			return l, nil
		}
		if err != nil {
			return keyless.Look{}, err
		}
		s.read(rows, &l)
		if next == "" {
			return l, nil
		}
		if seen[next] || page >= mostPages {
			return keyless.Look{}, &provider.Error{
				Kind: provider.Transient, Op: provider.OpList, Scope: "seller", Code: "endless",
				Message: fmt.Sprintf("page token %.40q leads back: the list has no end", next),
			}
		}
		seen[next], after = true, next
	}
}

func (s shop) page(ctx context.Context, after string) ([]json.RawMessage, string, error) {
	var answer struct {
		Instances json.RawMessage `json:"instances"`
		Next      wire.Text       `json:"next_token"`
	}
	q := wire.Question{Method: http.MethodGet, Path: "/api/v1/instances/", Query: url.Values{}}
	if after != "" {
		q.Query.Set("after_token", after)
	}
	if err := s.ask(ctx, provider.OpList, s.pace.list, q, &answer); err != nil {
		return nil, "", err
	}
	rows, err := oneOrMany(answer.Instances)
	if err != nil {
		return nil, "", wire.Garbled(provider.OpList, wire.Answer{Status: http.StatusOK, Body: answer.Instances}, err)
	}
	return rows, string(answer.Next), nil
}

// oneOrMany reads a list that may hold one object without being one.
func oneOrMany(b json.RawMessage) ([]json.RawMessage, error) {
	b = bytes.TrimSpace(b)
	if len(b) > 0 && b[0] == '{' {
		return []json.RawMessage{b}, nil
	}
	var rows []json.RawMessage
	if len(b) == 0 || bytes.Equal(b, []byte("null")) {
		return nil, fmt.Errorf("no instances in the answer")
	}
	return rows, json.Unmarshal(b, &rows)
}

// read adds ours of a page. A row that cannot be read may be ours.
func (s shop) read(rows []json.RawMessage, l *keyless.Look) {
	for _, raw := range rows {
		var c contract
		if err := json.Unmarshal(raw, &c); err != nil {
			s.cfg.Log.Warn("a row of the list cannot be read", zap.Error(err))
			l.Complete = false
			continue
		}
		token, ours := strings.CutPrefix(string(c.Label), s.labelStart())
		if !ours || events.CheckToken("token", token) != nil {
			continue
		}
		if c.ID.ID() == "" {
			l.Complete = false
			continue
		}
		l.Sights = append(l.Sights, s.sight(c, token))
	}
}

func (s shop) sight(c contract, token string) keyless.Sight {
	state, by := stateOf(string(c.Actual), string(c.Current), string(c.Next), string(c.Intended))
	price, _ := c.Base.Scaled(int64(events.DollarPerHour))
	r, err := keyless.Unpack(envOf(c.Env)[envRecord])
	if err != nil || r.Token != token || r.Mark != s.cfg.Mark {
		s.cfg.Log.Warn("an instance of ours carries no record of its purchase", zap.String("instance", c.ID.ID()), zap.Error(err))
		r = keyless.Bare(token, s.cfg.Mark, events.Pool{Seller: s.cfg.Seller, Region: nowhere, Zone: "m" + c.Machine.ID(), Gang: 1}, unix(c.Start))
		r.Price = events.PerInstanceHour(price)
	}
	return keyless.Sight{ID: events.InstanceID(c.ID.ID()), State: state, EndedBy: by, Price: events.PerInstanceHour(price), Record: r}
}

func unix(n wire.Number) time.Time {
	s, ok := n.Float()
	if !ok || s <= 0 || s > 1e11 {
		return time.Time{}
	}
	whole, part := math.Modf(s)
	return time.Unix(int64(whole), int64(part*1e9)).UTC()
}

// envOf reads the environment, which is a list of pairs.
func envOf(b json.RawMessage) map[string]string {
	out := map[string]string{}
	var pairs [][]wire.Text
	if json.Unmarshal(b, &pairs) == nil {
		for _, p := range pairs {
			if len(p) == 2 {
				out[string(p[0])] = string(p[1])
			}
		}
		return out
	}
	var object map[string]wire.Text
	if json.Unmarshal(b, &object) == nil {
		for k, v := range object {
			out[k] = string(v)
		}
	}
	return out
}

// stopped is the word for a machine that does not run, in all three states.
const stopped = "stopped"

// stateOf says what an instance's four states mean, and who is ending it. That all
// that was wanted is "stopped" is a bid that lost, unless we stopped it, which we never do: we destroy.
func stateOf(actual, current, next, intended string) (provider.State, string) {
	switch actual {
	case "exited":
		return provider.Stopping, "machine"
	case "unknown", "offline":
		return provider.Stopping, "fault"
	case "running":
		if current == stopped && next == stopped && intended == stopped {
			return provider.Stopping, "seller"
		}
		return provider.Running, ""
	}
	if current == stopped && next == stopped && intended == stopped {
		return provider.Stopping, "seller"
	}
	switch actual {
	case stopped:
		if next == "running" || intended == "running" && next != stopped {
			return provider.Pending, "" // it won again, and starts
		}
		return provider.Stopping, "seller"
	case "", "created", "loading", "rebooting":
		return provider.Pending, ""
	}
	return provider.Running, "" // frozen, and what we do not know: it costs money
}
