package provider

// StackConfig configures everything that stands between a service and an adapter.
// Zero fields mean their defaults.
type StackConfig struct {
	Seller  string // label of the metrics
	Retry   RetryConfig
	Breaker BreakerConfig
	Limit   LimitConfig
	Limiter *Limiter // shared between the accounts of a seller; nil: one of its own, from Limit
	Metrics *Metrics // nil: none
}

// Stack puts the wrappers around an adapter, outermost first:
//
//	retry    the only one that calls again; each try passes all that follows
//	breaker  answers at once while the seller is down, without taking a token
//	limit    waits its turn
//	measure  counts what the seller really sees
//	typed    makes every error an *Error
//
// Optional interfaces of p are reached through As.
func Stack(p Provider, cfg StackConfig) Provider {
	m := cfg.Metrics
	if m == nil {
		m = NewMetrics(nil)
	}
	limiter := cfg.Limiter
	if limiter == nil {
		limiter = NewLimiter(cfg.Limit)
	}
	told, repeated := cfg.Breaker.OnChange, cfg.Retry.OnRepetition
	cfg.Breaker.OnChange = func(op, state string) {
		m.breakerState(cfg.Seller, op, state)
		if told != nil {
			told(op, state)
		}
	}
	cfg.Retry.OnRepetition = func(op string) {
		m.repeats.WithLabelValues(cfg.Seller, op).Inc()
		if repeated != nil {
			repeated(op)
		}
	}
	p = Typed(p)
	p = Measure(p, cfg.Seller, m)
	p = Limit(p, limiter)
	p = Break(p, cfg.Breaker)
	return Retry(p, cfg.Retry)
}
