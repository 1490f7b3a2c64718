package dev

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/services/internal/figures"
	"github.com/spotferry/spotferry/services/internal/process"
)

// operated is what a system has for those who operate it, if it was asked for.
type operated struct {
	registry *prometheus.Registry
	port     *process.Admin
}

// openAdmin opens the admin port, if the configuration names one.
func (s *system) openAdmin() (err error) {
	if s.cfg.Admin == "" {
		return nil
	}
	s.admin.registry = process.NewRegistry("dev", s.cfg.Version)
	if s.admin.port, err = process.Listen(s.cfg.Admin, s.admin.registry); err != nil {
		return err
	}
	figures.Bus(s.admin.registry, &s.counters)
	return nil
}

// registerer takes the services' metrics; nil: nobody looks.
func (o operated) registerer() prometheus.Registerer {
	if o.registry == nil {
		return nil
	}
	return o.registry
}

func (o operated) sellers() *provider.Metrics {
	if o.registry == nil {
		return nil
	}
	return provider.NewMetrics(o.registry)
}

// runPlane runs the plane, and the admin port and its figures beside it.
func (s *system) runPlane(ctx context.Context) error {
	if s.admin.port == nil {
		return s.plane.Run(ctx)
	}
	s.admin.port.SetReady(s.plane.Checks())
	return figures.Beside(s.plane, figures.Config{
		Log: s.log, Clock: s.state.Clock, Now: s.cfg.Now, Registerer: s.admin.registry, Logger: s.cfg.Logger,
	}, figures.All()...).Run(ctx)
}

func (s *system) serveAdmin(ctx context.Context) error {
	if s.admin.port == nil {
		return nil
	}
	return s.admin.port.Run(ctx, s.cfg.Logger)
}
