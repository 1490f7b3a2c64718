package framework

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
)

// layouts are all that is known, the most specific first: that is the order in
// which Detect asks whose a directory is.
func layouts(cfg Config) []layout {
	return []layout{
		plain(cfg.Marker), nemo(), megatron(), deepSpeed(), orbax(), accelerate(), hf(), keras(), lightning(), dcp(),
	}
}

// Names returns what New takes, for whoever validates a job file.
func Names() []string {
	var names []string
	for _, l := range layouts(Config{}) {
		names = append(names, l.name)
	}
	return names
}

// New returns the adapter with one of Names.
func New(name string, cfg Config) (Adapter, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	for _, l := range layouts(cfg) {
		if l.name != name {
			continue
		}
		if l.bare && cfg.Marker == "" {
			return nil, errors.New(`framework: "plain" needs a marker`)
		}
		return newAdapter(l, cfg), nil
	}
	return nil, fmt.Errorf("framework: unknown framework %q, want one of %s", name, strings.Join(Names(), ", "))
}

func newAdapter(l layout, cfg Config) *adapter {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	w := &watch{cfg: cfg, reused: l.reused, seen: map[string]look{}, ready: map[string]readiness{}}
	return &adapter{watch: w, layout: l, notes: map[string]note{}}
}

// Detect returns the adapter for what is in a job's directory, or nil when
// nothing in it is recognised, as before the first checkpoint: ask again. A
// configured marker means plain.
func Detect(root *os.Root, cfg Config) (Adapter, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	names, err := readNames(root, ".")
	if err != nil {
		return nil, fmt.Errorf("looking for checkpoints: %w", err)
	}
	for _, l := range layouts(cfg) {
		if l.bare != (cfg.Marker != "") {
			continue
		}
		a := newAdapter(l, cfg)
		found, err := a.Candidates(root)
		if err != nil {
			return nil, err
		}
		claimed := len(found) > 0
		if l.claims != nil {
			claimed = l.claims(root, names, found)
		}
		if claimed {
			return a, nil
		}
	}
	return nil, nil
}
