package vastfake

import (
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/events"
)

func (f *Fake) destroy(w http.ResponseWriter, r *http.Request) {
	c, ok := f.named(w, r)
	if !ok {
		return
	}
	f.mu.Lock()
	c.destroyed = true
	backend := c.backend
	f.mu.Unlock()
	if backend != "" {
		if err := f.cfg.Backend.Terminate(r.Context(), backend); err != nil {
			f.mu.Lock()
			c.destroyed = false
			f.mu.Unlock()
			refuse(w, err, 0)
			return
		}
	}
	tell(w, http.StatusOK, map[string]any{"success": true})
}

// named is the contract that a path names, if it lives; else the answer has been given.
func (f *Fake) named(w http.ResponseWriter, r *http.Request) (*contract, bool) {
	id, _ := strconv.Atoi(r.PathValue("id")) // 0 is no contract
	f.mu.Lock()
	c := f.contracts[id]
	f.mu.Unlock()
	if c == nil || c.destroyed {
		refuse(w, &provider.Error{Kind: provider.NotFound}, 0)
		return nil, false
	}
	return c, true
}

func (f *Fake) rebid(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Price json.Number `json:"price"`
	}
	c, ok := f.named(w, r)
	if !ok || !decode(w, r, &body) {
		return
	}
	price, err := events.ParsePerInstanceHour(body.Price.String())
	if err != nil {
		say(w, http.StatusBadRequest, "invalid_price", err.Error(), 0)
		return
	}
	bidder, ok := provider.As[provider.Rebidder](f.cfg.Backend)
	if !ok || c.backend == "" {
		say(w, http.StatusBadRequest, "invalid_args", "the instance is not for a bid", 0)
		return
	}
	if err := bidder.Rebid(r.Context(), c.backend, price); err != nil {
		refuse(w, err, 0)
		return
	}
	tell(w, http.StatusOK, map[string]any{"success": true})
}
