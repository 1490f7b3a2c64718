package local

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/bidder/trace"
	"github.com/spotferry/spotferry/events"
)

// Seller sells machines of one directory. It implements provider.Provider and
// provider.Meter, has no goroutine of its own, and remembers nothing that is not
// in the directory but the children it has to collect. One Seller at a time
// should have the directory; two do no harm to machines, only to each other's speed.
type Seller struct {
	cfg    Config
	market trace.Market
	log    *zap.Logger

	mu       sync.Mutex
	children map[string]int         // pids of hosts we started and have not collected, by token
	launches map[string]*sync.Mutex // one launch at a time for a token
	step     func(string)           // tests stop us between steps here
}

var (
	_ provider.Provider = (*Seller)(nil)
	_ provider.Meter    = (*Seller)(nil)
)

// The seller's directories. A name that begins with a dot is not an instance.
const (
	instancesDir = "instances"
	endedDir     = "ended" // those that are no longer listed
)

// remembered is how long an instance that ended stays in lists, control time.
const remembered = time.Hour

// New opens the seller of cfg.Dir, making it if need be.
func New(cfg Config) (*Seller, error) {
	if err := supported(); err != nil {
		return nil, err
	}
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	m, err := cfg.Market.Open()
	if err != nil {
		return nil, err
	}
	s := &Seller{
		cfg: cfg, market: m, log: cfg.Log, children: map[string]int{}, launches: map[string]*sync.Mutex{}, step: func(string) {},
	}
	dirs := []string{s.dir(instancesDir), s.dir(endedDir)}
	if cfg.EvidenceDir != "" {
		dirs = append(dirs, cfg.EvidenceDir)
	}
	for _, d := range dirs {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return nil, fmt.Errorf("local seller: %w", err)
		}
	}
	return s, s.sweep()
}

// sweep removes what launches that were cut off have begun.
func (s *Seller) sweep() error {
	names, err := os.ReadDir(s.dir(instancesDir))
	if err != nil {
		return fmt.Errorf("local seller: %w", err)
	}
	for _, n := range names {
		if strings.HasPrefix(n.Name(), ".") {
			if err := os.RemoveAll(filepath.Join(s.dir(instancesDir), n.Name())); err != nil {
				return fmt.Errorf("local seller: %w", err)
			}
		}
	}
	return nil
}

func (s *Seller) dir(name string) string { return filepath.Join(s.cfg.Dir, name) }

// now is the moment on both clocks.
func (s *Seller) now() events.Moment { return s.cfg.Clock.Moment(s.cfg.Now()) }

// Offers implements provider.Provider.
func (s *Seller) Offers(ctx context.Context) ([]events.Offer, error) {
	if ctx.Err() != nil {
		return nil, provider.HeldBack(ctx, provider.OpOffers)
	}
	d, err := s.drill()
	if err != nil {
		return nil, fail(provider.OpOffers, provider.Transient, err)
	}
	offers := trace.Offers(s.market, s.now(), s.cfg.OfferTTL)
	for i := range offers {
		if d.empty(offers[i].Pool) {
			*offers[i].InStock = false
		}
	}
	return offers, nil
}

func (s *Seller) drill() (Drill, error) {
	d, _, err := find[Drill](place(s.cfg.Dir), controlFile)
	return d, err
}

// fail is an error of ours as the contract has it.
func fail(op string, k provider.Kind, err error) *provider.Error {
	return &provider.Error{Kind: k, Op: op, Scope: "seller", Err: err}
}

// locate returns the directory of a token, wherever it is by now; false if there is none.
func (s *Seller) locate(token string) (place, bool, error) {
	// Listed first: an instance moves from there to the ended ones, never back.
	for range 2 {
		for _, d := range []string{instancesDir, endedDir} {
			p := place(filepath.Join(s.dir(d), token))
			if ok, err := exists(p.path(recordFile)); ok || err != nil {
				return p, ok, err
			}
		}
	}
	return "", false, nil
}

// turn makes callers with one token wait for each other.
func (s *Seller) turn(token string) (done func()) {
	s.mu.Lock()
	m := s.launches[token]
	if m == nil {
		m = &sync.Mutex{}
		s.launches[token] = m
	}
	s.mu.Unlock()
	m.Lock()
	return m.Unlock
}
