package simtest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"

	"github.com/spotferry/spotferry/events"
)

// cargo is what a checkpoint has beside its state, in pieces of their own each: one file that
// never changes, and one that is the same for a few saves, then another, and in
// time the first again. What is relied on, given up and comes back is all there.
type cargo struct {
	name string
	data []byte
}

const pieceSize = 1<<20 + 64 // from 1 MiB on a piece is an object of its own

func cargoOf(job events.JobID, step, saveEvery int64) []cargo {
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], chance(step/(2*saveEvery)%3).draw(job))
	moving := make([]byte, pieceSize)
	_, _ = rand.NewChaCha8(key).Read(moving)
	still := bytes.Repeat(fmt.Appendf(nil, "%-64.64s", job), pieceSize/64)
	return []cargo{{"base.bin", still}, {"optimizer.bin", moving}}
}

func (t *trainer) saveCargo(dir string) {
	for _, c := range cargoOf(t.run.job, t.at, t.work.saveEvery) {
		write(filepath.Join(dir, c.name), c.data)
	}
}

// checkCargo is I-6 for a trainer: the files that it is to go on from are those that were saved.
func (t *trainer) checkCargo(job events.JobID, dir string) {
	for _, c := range cargoOf(job, t.at, t.work.saveEvery) {
		data, err := os.ReadFile(filepath.Join(dir, c.name))
		if err != nil || !bytes.Equal(data, c.data) {
			t.m.w.fail("I-6: job %s: %s of step %d was restored with other bytes than were saved (%d, want %d): %v", job, c.name, t.at, len(data), len(c.data), err)
		}
	}
}
