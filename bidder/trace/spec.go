package trace

import (
	"fmt"
	"time"
)

// Spec names a market, so that another process can open the same one.
type Spec struct {
	Kind   string    `json:"kind"`             // "model", "demo", "files" or "table"
	Seller string    `json:"seller,omitempty"` // in the name of every pool; "local"
	Seed   uint64    `json:"seed,omitempty"`   // of model and demo
	Origin time.Time `json:"market_origin,omitzero"`
	Scale  int64     `json:"scale,omitempty"` // of demo: market seconds in a control second; 240
	Files  *Files    `json:"files,omitempty"`
	Table  *Table    `json:"table,omitempty"`
}

const (
	defaultSeller = "local"
	demoScale     = 240
)

// Validate says which field cannot be used and what to give instead.
func (s Spec) Validate() error {
	switch {
	case s.Kind == "files" && s.Files == nil:
		return fmt.Errorf("market: kind %q needs files: give the directory of the traces", s.Kind)
	case s.Kind == "table" && s.Table == nil:
		return fmt.Errorf("market: kind %q needs table", s.Kind)
	case s.Kind == "demo" && s.Origin.IsZero():
		return fmt.Errorf("market: kind %q needs market_origin, market time at its start", s.Kind)
	case s.Scale < 0:
		return fmt.Errorf("market: scale %d: give market seconds in a second, from 1", s.Scale)
	}
	switch s.Kind {
	case "model", "demo", "files", "table":
		return nil
	}
	return fmt.Errorf("market: kind %q: use model, demo, files or table", s.Kind)
}

// Open returns the market that s names.
func (s Spec) Open() (Market, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	seller := s.Seller
	if seller == "" {
		seller = defaultSeller
	}
	switch s.Kind {
	case "model":
		return NewModel(s.Seed, seller), nil
	case "demo":
		scale := s.Scale
		if scale == 0 {
			scale = demoScale
		}
		return NewDemo(s.Seed, seller, s.Origin, scale), nil
	case "files":
		return OpenFiles(*s.Files, seller, s.Origin)
	}
	return s.Table, nil
}
