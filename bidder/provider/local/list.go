package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/events"
)

// List implements provider.Provider. It looks after the machines on the way:
// hosts that a launch did not come to start are started, and machines whose host
// died are cleared and ended.
func (s *Seller) List(ctx context.Context) (provider.Listing, error) {
	if ctx.Err() != nil {
		return provider.Listing{}, provider.HeldBack(ctx, provider.OpList)
	}
	at := s.cfg.Now()
	names, err := os.ReadDir(s.dir(instancesDir))
	if err != nil {
		return provider.Listing{}, fail(provider.OpList, provider.Transient, err)
	}
	s.collect()
	l := provider.Listing{Complete: true, At: at}
	for _, n := range names {
		if strings.HasPrefix(n.Name(), ".") {
			continue
		}
		i, shown, err := s.visit(ctx, n.Name(), at)
		if err != nil {
			s.log.Warn("machine not listed", zap.String("token", n.Name()), zap.Error(err))
			l.Complete = false
			continue
		}
		if shown {
			l.Instances = append(l.Instances, i)
		}
	}
	return l, nil
}

// visit looks at one instance; false if it is no longer listed.
func (s *Seller) visit(ctx context.Context, token string, now time.Time) (provider.Instance, bool, error) {
	p := place(filepath.Join(s.dir(instancesDir), token))
	i, err := s.view(p)
	if errors.Is(err, fs.ErrNotExist) {
		return i, false, s.moved(token, err)
	}
	if err != nil || i.State == provider.Gone {
		return i, err == nil && !s.retire(p, now), err
	}
	if err := s.upkeep(ctx, p, token, false); err != nil {
		return i, false, err
	}
	i, err = s.view(p)
	return i, err == nil, err
}

// moved forgives that an instance was not where it was a moment ago, if it has been retired.
func (s *Seller) moved(token string, err error) error {
	if ok, _ := exists(filepath.Join(s.dir(endedDir), token)); ok {
		return nil
	}
	return err
}

// retire takes an instance that ended long ago out of the list.
func (s *Seller) retire(p place, now time.Time) bool {
	e, err := read[ending](p.path(endFile))
	if err != nil || now.Sub(e.Control) < remembered {
		return false
	}
	token := filepath.Base(string(p))
	if err := os.Rename(string(p), filepath.Join(s.dir(endedDir), token)); err != nil {
		s.log.Warn("ended machine not put away", zap.String("token", token), zap.Error(err))
		return true
	}
	s.mu.Lock()
	delete(s.launches, token)
	s.mu.Unlock()
	return true
}

// collect waits for hosts of ours that have ended, so that no zombie stays.
func (s *Seller) collect() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for token, pid := range s.children {
		if ended(pid) {
			delete(s.children, token)
		}
	}
}

// view is an instance as its files tell it.
func (s *Seller) view(p place) (provider.Instance, error) {
	r, err := p.record()
	if err != nil {
		return provider.Instance{}, err
	}
	e, over, err1 := find[ending](p, endFile)
	m, _, err2 := find[reading](p, meterFile)
	h, _, err3 := find[hostState](p, hostFile)
	asked, err4 := exists(p.path(terminateFile))
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return provider.Instance{}, err
	}
	i := provider.Instance{
		ID: r.ID, Token: r.Token, Pool: r.Spec.Pool, State: provider.Pending, Started: r.Start, Terms: r.Offer.Terms, Labels: r.Spec.Labels,
	}
	switch {
	case over && m.Final:
		i.State, i.Ended, i.EndedBy = provider.Gone, e.Market, e.By
		i.Prices = r.prices(s.market, e.Market)
		return i, nil
	case over, asked:
		i.State = provider.Stopping
	case h.Agent.PID != 0:
		i.State = provider.Running
	}
	i.Prices = r.prices(s.market, s.now().Market)
	return i, nil
}

// close ends an instance that has no host, whose lock the caller holds: one
// that died, one that was never started and is no longer wanted, or one that
// wrote its end but not its bill.
func (s *Seller) close(p place, h hostState, ran bool) error {
	r, err := p.record()
	if err != nil {
		return err
	}
	e, over, err := find[ending](p, endFile)
	if err != nil {
		return err
	}
	if !over {
		if e, err = s.clear(p, r, h, ran); err != nil {
			return err
		}
	}
	m, _, err := find[reading](p, meterFile)
	if err != nil || m.Final {
		return err
	}
	return finish(p, r, s.market, e)
}

// clear kills what a dead host has left of its machine and writes down the end.
func (s *Seller) clear(p place, r record, h hostState, ran bool) (ending, error) {
	look := func() ([]process, error) { return leftovers(p.machine()) }
	left, err := killAll(look, nil, cgroup(h.Cgroup), time.Now().Add(2*time.Second))
	if err != nil || left > 0 {
		return ending{}, errors.Join(err, fmt.Errorf("%d processes of %s are left: look at them, the next list tries again", left, r.ID))
	}
	cgroup(h.Cgroup).remove()
	now := s.now()
	e := ending{Market: latest(now.Market, r.Start), Control: now.Control, By: endedByUs, Detail: "terminated before it ran"}
	if ran {
		e.By, e.Detail = endedByFault, hostDied
	}
	s.log.Info("machine without a host ended", zap.String("instance", string(r.ID)), zap.String("by", e.By), zap.String("detail", e.Detail))
	return e, errors.Join(os.RemoveAll(p.machine()), write(p.path(endFile), e))
}

// Terminate implements provider.Provider. The wish is a file, so it survives us;
// the signal only makes it quick.
func (s *Seller) Terminate(ctx context.Context, id events.InstanceID) error {
	if ctx.Err() != nil {
		return provider.HeldBack(ctx, provider.OpTerminate)
	}
	token, ours := tokenOf(id)
	if !ours {
		return nil // never was, so it is gone
	}
	defer s.turn(token)()
	p, there, err := s.locate(token)
	if err == nil && there {
		err = s.stop(ctx, p, token)
	}
	if err != nil {
		return fail(provider.OpTerminate, provider.Transient, fmt.Errorf("terminating %s: %w", id, err))
	}
	return nil
}

func (s *Seller) stop(ctx context.Context, p place, token string) error {
	if _, over, err := find[ending](p, endFile); over || err != nil {
		return err
	}
	if err := write(p.path(terminateFile), s.cfg.Now()); err != nil {
		return err
	}
	s.step("asked")
	h, ran, err := find[hostState](p, hostFile)
	if err != nil {
		return err
	}
	if ran {
		if err := signalTo(h.Host, syscall.SIGTERM); err != nil {
			return err
		}
	}
	return s.upkeep(ctx, p, token, false)
}

// Metered implements provider.Meter.
func (s *Seller) Metered(ctx context.Context, id events.InstanceID) (provider.Reading, error) {
	if ctx.Err() != nil {
		return provider.Reading{}, provider.HeldBack(ctx, provider.OpMetered)
	}
	token, ours := tokenOf(id)
	p, there, err := s.locate(token)
	if err == nil && (!ours || !there) {
		return provider.Reading{}, &provider.Error{Kind: provider.NotFound, Op: provider.OpMetered, Message: fmt.Sprintf("there was never an instance %s", id)}
	}
	var r provider.Reading
	if err == nil {
		r, err = s.reading(p)
	}
	if err != nil {
		return provider.Reading{}, fail(provider.OpMetered, provider.Transient, fmt.Errorf("reading the meter of %s: %w", id, err))
	}
	return r, nil
}

func (s *Seller) reading(p place) (provider.Reading, error) {
	m, _, err := find[reading](p, meterFile)
	if err != nil || m.Final {
		return provider.Reading{Amount: events.MicroUSD(m.Amount), Final: m.Final}, err
	}
	r, err := p.record()
	if err != nil {
		return provider.Reading{}, err
	}
	e, over, err := find[ending](p, endFile)
	if !over {
		e = ending{Market: s.now().Market, By: endedByUs}
	}
	return provider.Reading{Amount: events.MicroUSD(total(bill(r.stay(s.market, e.Market, e.By))))}, err
}
