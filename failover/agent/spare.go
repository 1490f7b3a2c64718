package agent

import "time"

// Load is what a machine's processors have done since it started, summed over
// all of them.
type Load struct {
	Cores int
	Idle  time.Duration
	Own   time.Duration // of it by this process
}

// spare keeps what uploads compute to the processors that training leaves idle,
// and a hundredth of all. It is pure.
//
// A byte that is sent has been read, hashed, perhaps encoded and encrypted, and
// copied by the kernel. What that takes is measured; on a machine whose trainer
// uses every core it is taken from training, whatever the link would carry.
type spare struct {
	at      time.Duration
	was     Load
	sent    int64
	perByte float64 // seconds of a core
	rate    int64   // bytes a second; 0: as much as the link's share
}

const (
	lookAtLoad = time.Second
	// costOfByte is what sending one takes until it is measured: 2 s a GB.
	costOfByte = 2e-9
	// taken is the part of all cores that uploads may take from training.
	taken = 0.01
	// breathing is the part of all cores that stays idle beside uploads: who finds
	// less takes the trainer to be waiting for a core.
	breathing = 0.05
)

// due reports whether it is time for a look.
func (s *spare) due(now time.Duration) bool { return s.at == 0 || now-s.at >= lookAtLoad }

// look takes what the processors did, and how many bytes have been sent by now.
func (s *spare) look(now time.Duration, l Load, sent int64) {
	took, was, before := (now - s.at).Seconds(), s.was, s.sent
	first := s.at == 0
	s.at, s.was, s.sent = now, l, sent
	if first || took <= 0 || l.Cores < 1 {
		return
	}
	own := (l.Own - was.Own).Seconds()
	if n := float64(sent - before); n >= 1<<20 {
		if s.perByte == 0 {
			s.perByte = own / n
		}
		s.perByte += 0.3 * (own/n - s.perByte)
	}
	cost := s.perByte
	if cost <= 0 {
		cost = costOfByte
	}
	cores, idle := float64(l.Cores), (l.Idle-was.Idle).Seconds()/took
	may := own/took + idle - breathing*cores
	if idle < breathing*cores { // training may be waiting for what we use
		may = own / took / 2
	}
	s.rate = int64(max(may, taken*cores) / cost)
}

// within returns the lower of a limit and what the processors allow; 0 is none. It
// stays with the one that is in force when that is near: an upload whose limit
// changes measures nothing.
func (s *spare) within(limit, force int64) int64 {
	if s.rate == 0 || limit > 0 && limit <= s.rate {
		return limit
	}
	if near := float64(s.rate) / float64(max(force, 1)); near > 0.8 && near < 1.25 {
		return force
	}
	return max(s.rate, 64<<10)
}
