package simtest

import (
	"time"

	"github.com/spotferry/spotferry/events"
)

// heard notes that the gateway has answered a renewal, whether or not the answer arrives.
func (m *machine) heard() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.renewals = append(m.renewals, time.Now())
}

// renewed notes an answer that arrived.
func (m *machine) renewed(sent time.Time, r events.RenewReply) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if sent.Before(m.held) {
		return
	}
	if gap := time.Since(m.held); gap > m.w.timers.Hold && !m.held.IsZero() && (gap > m.gap || time.Since(m.back) > lastWork) {
		m.gap, m.back, m.gapPaid = gap, time.Now(), m.paidBy
	}
	m.held, m.paidBy = sent, time.Time{}
	if r.PaidFor > 0 {
		m.paidBy = sent.Add(r.PaidFor)
	}
}

// instants is how far two actors' own instants are apart at most, several times over.
const instants = 20 * time.Millisecond

// committing checks I-15: a commit is asked for only by who holds the job, by the true time.
func (m *machine) committing() {
	m.mu.Lock()
	since := time.Since(m.held)
	m.mu.Unlock()
	if since > m.w.timers.Hold+instants {
		m.w.fail("I-15: the agent of %s asked for a commit %s after its newest renewal, its hold is %s", m.boot.Lease, since, m.w.timers.Hold)
	}
}

// lastWork bounds how long an agent that gives up saves, ships and stops.
const lastWork = 5 * time.Minute

// silent checks I-15: an agent gives up only when nobody was there for the silence
// limit, or for as long as its machine is paid for.
func (m *machine) silent() {
	m.mu.Lock()
	since, paidBy := time.Since(m.held), m.paidBy
	if m.gap > since && time.Since(m.back) < lastWork { // contact came back while it was ending
		since, paidBy = m.gap, m.gapPaid
	}
	m.mu.Unlock()
	t := m.w.timers
	early := since < t.Silence-instants
	if early && !paidBy.IsZero() && since >= t.Hold && time.Until(paidBy) < lastWork {
		early = false
		m.w.hits.add("agent gives up when its machine is no longer paid for")
	}
	if early {
		m.w.fail("I-15: the agent of %s gave up after %s without contact (paid for until %s)", m.boot.Lease, since, paidBy)
	}
	if most := t.Silence + lastWork; since > most {
		m.w.fail("I-15: the agent of %s went on for %s without contact", m.boot.Lease, since)
	}
}

// skew is how wrong the machine's wall clock is now: by up to an hour, and by
// another amount every time that somebody sets it.
func (m *machine) skew(began time.Time) time.Duration {
	t := m.w.opt.trouble
	if t.steps >= never {
		return 0
	}
	n := int(time.Since(began) / t.steps)
	if n > 0 {
		m.mu.Lock()
		if m.set < n {
			m.set = n
			m.w.hits.add("machine's wall clock is set")
		}
		m.mu.Unlock()
	}
	return m.w.chance.between(-time.Hour, time.Hour, "skew", m.id, n)
}

// spoil notes that a request begun at a time has gone wrong.
func (m *machine) spoil(from time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.spoiled = append(m.spoiled, window{from, time.Now()})
}
