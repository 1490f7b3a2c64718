package plane

import (
	"context"

	"github.com/spotferry/spotferry/failover"
	"github.com/spotferry/spotferry/services/internal/process"
)

// Failover carries what happens to leases and agents into the jobs concerned.
type Failover struct {
	*ground
	service *failover.Service
}

// NewFailover builds a failover service that runs alone.
func NewFailover(cfg Config) *Failover { return newFailover(newGround(cfg, true)) }

func newFailover(g *ground) *Failover {
	return &Failover{g, failover.New(failover.Config{
		Log: g.Log, Signals: g.bus, Logs: g.bus, Book: g.jobs, Timers: g.Timers, Now: g.moment, Logger: g.Logger.Named("failover"),
		Healthy: g.contact.unbroken, Slot: func() { g.Turn("failover") },
	})}
}

// Run serves until ctx ends.
func (f *Failover) Run(ctx context.Context) error { return together(ctx, f.runs()...) }

func (f *Failover) runs() []func(context.Context) error {
	return []func(context.Context) error{f.service.Run}
}

// Checks are what has to hold for the service to do its work.
func (f *Failover) Checks() []process.Check { return f.basics() }
