package dev

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spotferry/spotferry/services/internal/installation"
)

// usable says why the directory cannot become a state directory, or nil: it is
// one already, or holds nothing of anybody else. It touches nothing.
func (l layout) usable() error {
	entries, err := os.ReadDir(l.dir)
	if err != nil {
		return fmt.Errorf("the state directory cannot be read: %w", err)
	}
	foreign := ""
	for _, e := range entries {
		switch n := e.Name(); {
		case n == stateFile:
			return nil
		case n == "lock" || n == "dev.log" || n == "examples" || n == "evidence":
		case strings.HasPrefix(n, unfinished): // left over from a crash
		case foreign == "":
			foreign = n
		}
	}
	if foreign != "" {
		return fmt.Errorf("%s is not empty (it has %q) and holds no Spotferry state: choose another --state", l.dir, foreign)
	}
	return nil
}

// establish reads the state, raising it to this program's format, or makes it. The caller has the lock.
func (l layout) establish(cfg Config) (state, error) {
	st, err := l.readState()
	if err == nil {
		if err := cfg.agrees(st); err != nil {
			return st, err
		}
		return l.raise(st, cfg.Version)
	}
	if !errors.Is(err, ErrNoState) {
		return st, err
	}
	if st, err = newState(cfg); err != nil {
		return st, err
	}
	return st, l.writeState(st)
}

// newState fixes what a state directory is made with.
func newState(cfg Config) (state, error) {
	terms, err := installation.NewTerms(cfg.Now(), installation.Wish{
		Version: cfg.Version, Org: org, Seller: sellerName, Market: cfg.Market, Scale: cfg.Scale, Divide: cfg.Divide,
	})
	return state{Format: stateFormat, Terms: terms, Store: cfg.Store}, err
}

// agrees refuses to run a state on other terms than it was made with.
func (cfg Config) agrees(st state) error {
	was := ""
	switch m := cfg.Market; {
	case m.Kind != "" && (m.Kind != st.Market.Kind || m.Seed != st.Market.Seed):
		was = fmt.Sprintf("market %q, seed %d", st.Market.Kind, st.Market.Seed)
	case m.Files != nil && st.Market.Files != nil && m.Files.Dir != st.Market.Files.Dir:
		was = fmt.Sprintf("the recorded market in %s", st.Market.Files.Dir)
	case cfg.Scale != 0 && cfg.Scale != st.Clock.Scale:
		was = fmt.Sprintf("scale %d", st.Clock.Scale)
	case cfg.Divide != 0 && cfg.Divide != st.Divide:
		was = fmt.Sprintf("timers divided by %d", st.Divide)
	case cfg.Store != "" && cfg.Store != st.Store:
		was = fmt.Sprintf("the store %q", cmp.Or(st.Store, "store"))
	default:
		return nil
	}
	return fmt.Errorf("%s was made with %s: use that, or another --state", cfg.Dir, was)
}
