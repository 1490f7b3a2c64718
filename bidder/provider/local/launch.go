package local

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"go.uber.org/zap"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/bidder/trace"
	"github.com/spotferry/spotferry/events"
)

// Launch implements provider.Provider. The machine is bought when its directory
// has its name; whatever is cut off after that, the next Launch or List takes up.
func (s *Seller) Launch(ctx context.Context, spec provider.LaunchSpec, token string) (provider.Instance, error) {
	if ctx.Err() != nil {
		return provider.Instance{}, provider.HeldBack(ctx, provider.OpLaunch)
	}
	if err := check(spec, token); err != nil {
		return provider.Instance{}, fail(provider.OpLaunch, provider.Invalid, err)
	}
	defer s.turn(token)()
	p, err := s.buy(spec, token)
	if err != nil {
		return provider.Instance{}, err
	}
	s.step("bought")
	if err := s.upkeep(ctx, p, token, true); err != nil {
		return provider.Instance{}, maybe(ctx, err)
	}
	i, err := s.view(p)
	if err != nil {
		return provider.Instance{}, maybe(ctx, err)
	}
	return i, nil
}

// maybe is the error of a launch after the machine was bought.
func maybe(ctx context.Context, err error) *provider.Error {
	if ctx.Err() != nil {
		return provider.Unanswered(provider.OpLaunch, err)
	}
	e := fail(provider.OpLaunch, provider.Transient, err)
	e.MaybeCreated = true
	return e
}

func check(spec provider.LaunchSpec, token string) error {
	if err := events.CheckToken("token", token); err != nil {
		return err
	}
	if spec.MaxPrice <= 0 {
		return fmt.Errorf("max_price %v: give the most an hour may cost", spec.MaxPrice)
	}
	return nil
}

// buy returns the directory of the token's machine, making it if there is none.
// Errors are final answers: nothing was bought.
func (s *Seller) buy(spec provider.LaunchSpec, token string) (place, error) {
	for {
		p, there, err := s.locate(token)
		if err != nil {
			return "", fail(provider.OpLaunch, provider.Transient, err)
		}
		if there {
			return p, s.same(p, spec)
		}
		r, err := s.sell(spec, token)
		if err != nil {
			return "", err
		}
		p, err = s.establish(r)
		if errors.Is(err, os.ErrExist) {
			continue // another seller on this directory was faster
		}
		if err != nil {
			return "", fail(provider.OpLaunch, provider.Transient, err)
		}
		s.log.Info("machine sold", zap.String("token", token), zap.Stringer("pool", spec.Pool), zap.Stringer("price", r.Price), zap.Time("market_start", r.Start))
		return p, nil
	}
}

// same refuses another request under a token that is taken.
func (s *Seller) same(p place, spec provider.LaunchSpec) error {
	r, err := p.record()
	if err != nil {
		return fail(provider.OpLaunch, provider.Transient, err)
	}
	want, err1 := json.Marshal(spec)
	got, err2 := json.Marshal(r.Spec)
	if err := errors.Join(err1, err2); err != nil {
		return fail(provider.OpLaunch, provider.Invalid, err)
	}
	if !bytes.Equal(want, got) {
		return &provider.Error{
			Kind: provider.Conflict, Op: provider.OpLaunch, Scope: "pool", Pool: &spec.Pool,
			Message: fmt.Sprintf("token %s is of another request, for %v at up to %v: read that, or use another token", r.Token, r.Spec.Pool, r.Spec.MaxPrice),
		}
	}
	return nil
}

// sell answers whether the market sells this now, and what.
func (s *Seller) sell(spec provider.LaunchSpec, token string) (record, error) {
	refuse := func(k provider.Kind, message string) error {
		return &provider.Error{Kind: k, Op: provider.OpLaunch, Scope: "pool", Pool: &spec.Pool, Message: message}
	}
	info, ok := trace.Find(s.market, spec.Pool)
	if !ok {
		return record{}, refuse(provider.OfferGone, "there is no such pool: ask for offers again")
	}
	d, err := s.drill()
	if err != nil {
		return record{}, fail(provider.OpLaunch, provider.Transient, err)
	}
	now := s.now()
	if !s.market.InStock(spec.Pool, now.Market) || d.empty(spec.Pool) {
		return record{}, refuse(provider.NoCapacity, "the pool is empty")
	}
	price := s.market.Price(spec.Pool, now.Market).Price
	if price > spec.MaxPrice {
		return record{}, refuse(provider.PriceTooLow, fmt.Sprintf("the price is %v", price))
	}
	return record{
		Version: recordVersion, ID: instanceID(token), Token: token, Spec: spec,
		Launched: now.Control, Start: now.Market, Price: price, Offer: info.Offer, Boot: info.Boot,
		Fate: s.market.Reclaims(spec.Pool, token, now.Market), Market: s.cfg.Market, Clock: s.cfg.Clock,
		Agent: s.cfg.AgentArgs, Env: s.cfg.Env, Evidence: s.cfg.EvidenceDir,
	}, nil
}

// establish makes the instance's directory under another name and renames it:
// it is there whole or not at all, and only once.
func (s *Seller) establish(r record) (place, error) {
	tmp, err := os.MkdirTemp(s.dir(instancesDir), "."+r.Token+"-*")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(tmp) // nothing is there any more when the rename worked
	s.step("begun")
	if err := write(filepath.Join(tmp, recordFile), r); err != nil {
		return "", err
	}
	s.step("written")
	p := place(filepath.Join(s.dir(instancesDir), r.Token))
	if err := os.Rename(tmp, string(p)); err != nil {
		return "", err // os.ErrExist: a directory that is not empty is not replaced
	}
	s.step("named")
	return p, syncDir(s.dir(instancesDir))
}

// startTimeout is how long a host may take until it says that it is there.
const startTimeout = 20 * time.Second

// upkeep sees that an instance has the host it should have: it starts one that
// was never started, and closes the books of one that died. With wait it waits
// until a new host is there.
func (s *Seller) upkeep(ctx context.Context, p place, token string, wait bool) error {
	lock, err := tryLock(p.path(lockFile))
	if err != nil {
		return err
	}
	if lock == nil { // a host is there
		return nil
	}
	h, ran, err := find[hostState](p, hostFile)
	_, over, err2 := find[ending](p, endFile)
	asked, err3 := exists(p.path(terminateFile))
	if err := errors.Join(err, err2, err3); err != nil {
		return errors.Join(err, lock.Close())
	}
	if over || ran || asked {
		return errors.Join(s.close(p, h, ran), lock.Close())
	}
	if err := lock.Close(); err != nil {
		return err
	}
	return s.start(ctx, p, token, wait)
}

// start starts the instance's host, unless one of ours is just starting.
func (s *Seller) start(ctx context.Context, p place, token string, wait bool) error {
	s.mu.Lock()
	pid := s.children[token]
	s.mu.Unlock()
	if pid == 0 || ended(pid) {
		argv := append(append([]string{s.cfg.Exe}, s.cfg.HostArgs...), "--dir", string(p))
		var err error
		if pid, err = spawn(argv, s.cfg.Env, s.cfg.Dir, p.path(hostLog)); err != nil {
			return fmt.Errorf("starting the host of %s: %w", instanceID(token), err)
		}
		s.mu.Lock()
		s.children[token] = pid
		s.mu.Unlock()
	}
	s.step("started")
	if !wait {
		return nil
	}
	return s.await(ctx, p, pid)
}

// await waits until the host has said that it is there.
func (s *Seller) await(ctx context.Context, p place, pid int) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, errors.New("the host does not start"))
	defer cancel()
	for {
		for _, f := range []string{hostFile, endFile} {
			if there, err := exists(p.path(f)); there || err != nil {
				return err
			}
		}
		if ended(pid) {
			if there, err := exists(p.path(hostFile)); there || err != nil {
				return err
			}
			return fmt.Errorf("the host ended before it was there; its words are in %s", p.path(hostLog))
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(2 * time.Millisecond):
		}
	}
}
