package gateway

import (
	"slices"
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

	maxGPUs     = 16
	maxEvidence = 80
	maxLine     = 1024
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
		BootMS: millis(c.BootMS), ImageMS: millis(c.ImageMS), InputsMS: millis(c.InputsMS),
		SetupMS: millis(c.SetupMS), RestoreMS: millis(c.RestoreMS), FirstStepMS: millis(c.FirstStepMS),
		AheadMS: millis(c.AheadMS),
	}
}

// beat keeps a heartbeat to what a record may keep of it.
func beat(hb events.Heartbeat) events.Heartbeat {
	hb.State, hb.Trouble = bounded(hb.State, maxWord), bounded(hb.Trouble, maxText)
	hb.Clock, hb.TrainingMS = clock(hb.Clock), millis(hb.TrainingMS)
	hb.GPUs = slices.Clone(hb.GPUs[:min(len(hb.GPUs), maxGPUs)])
	for i := range hb.GPUs {
		hb.GPUs[i].Name = bounded(hb.GPUs[i].Name, maxWord)
	}
	return hb
}

// evidence keeps the newest lines that tell a trouble.
func evidence(lines []string) []string {
	lines = slices.Clone(lines[max(len(lines)-maxEvidence, 0):])
	for i, l := range lines {
		lines[i] = bounded(l, maxLine)
	}
	return lines
}
