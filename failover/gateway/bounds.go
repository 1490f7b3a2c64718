package gateway

import (
	"strings"
	"time"

	"github.com/spotferry/spotferry/events"
)

// What an agent says is kept for ever, and read back in messages of bounded
// size: no word of it may be longer than a record needs.
const (
	maxWord = 128
	maxText = 2048
	maxSpan = 24 * time.Hour
)

// bounded cuts s to at most n bytes, between characters.
func bounded(s string, n int) string {
	return strings.ToValidUTF8(s[:min(len(s), n)], "")
}

// millis keeps a measured time within what can be true.
func millis(ms int64) int64 { return min(max(ms, 0), maxSpan.Milliseconds()) }

// signalled is millis, but for -1: no signal was sent.
func signalled(ms int64) int64 {
	if ms < 0 {
		return -1
	}
	return millis(ms)
}

func host(h events.Host) events.Host {
	h.Instance = events.InstanceID(bounded(string(h.Instance), maxWord))
	h.OS, h.Arch = bounded(h.OS, maxWord), bounded(h.Arch, maxWord)
	h.BootMS = millis(h.BootMS)
	return h
}

func clock(c events.AgentClock) events.AgentClock {
	return events.AgentClock{
		BootMS: millis(c.BootMS), SetupMS: millis(c.SetupMS), RestoreMS: millis(c.RestoreMS), FirstStepMS: millis(c.FirstStepMS),
	}
}
