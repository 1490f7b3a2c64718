package simtest

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"time"
)

// chance is where everything random comes from. A draw is named by what it is
// about, so that it is the same whoever draws first.
type chance uint64

func (c chance) draw(about ...any) uint64 {
	h := fnv.New64a()
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], uint64(c))
	h.Write(b[:])
	fmt.Fprintln(h, about...)
	x := h.Sum64() // its low bits are weak: stir
	x ^= x >> 31
	x *= 0x7fb5d329728ea185
	x ^= x >> 27
	x *= 0x81dadef4bc2dd44d
	return x ^ x>>33
}

// unit is in [0, 1).
func (c chance) unit(about ...any) float64 { return float64(c.draw(about...)>>11) / (1 << 53) }

func (c chance) hits(p float64, about ...any) bool { return c.unit(about...) < p }

func (c chance) below(n int, about ...any) int { return int(c.draw(about...) % uint64(n)) }

// between is a whole number of milliseconds, so that whoever sleeps so long
// stays at its own instant.
func (c chance) between(lo, hi time.Duration, about ...any) time.Duration {
	return (lo + time.Duration(c.unit(about...)*float64(hi-lo))).Truncate(time.Millisecond)
}

// wait is a time until the next of events that come once per mean.
func (c chance) wait(mean time.Duration, about ...any) time.Duration {
	return time.Duration(-math.Log(1-c.unit(about...)) * float64(mean)).Truncate(time.Millisecond)
}

// entropy makes keys.
func (c chance) entropy(about ...any) *rand.ChaCha8 {
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], c.draw(about...))
	return rand.NewChaCha8(key)
}

// turn waits for the actor's own instant: the same nanosecond of each millisecond.
func turn(actor string) {
	const room = uint64(time.Millisecond - 2)
	at := time.Duration(1 + chance(0).draw(actor)%room)
	now := time.Duration(time.Now().UnixNano())
	next := now.Truncate(time.Millisecond) + at
	if next <= now {
		next += time.Millisecond
	}
	time.Sleep(next - now)
}
