package plane

import (
	"context"

	"github.com/spotferry/spotferry/bidder/ledger"
	"github.com/spotferry/spotferry/services/internal/process"
)

// Ledger charges for leases that ended.
type Ledger struct {
	*ground
	service *ledger.Service
}

// NewLedger builds a ledger that runs alone.
func NewLedger(cfg Config) *Ledger { return newLedger(newGround(cfg, true)) }

func newLedger(g *ground) *Ledger {
	return &Ledger{g, ledger.New(ledger.Config{Log: g.Log, Book: g.money, Logger: g.Logger.Named("ledger"), Crash: g.Crash})}
}

// Run serves until ctx ends.
func (l *Ledger) Run(ctx context.Context) error { return together(ctx, l.runs()...) }

func (l *Ledger) runs() []func(context.Context) error {
	return []func(context.Context) error{l.service.Run}
}

// Checks are what has to hold for the ledger to do its work.
func (l *Ledger) Checks() []process.Check { return l.basics() }
