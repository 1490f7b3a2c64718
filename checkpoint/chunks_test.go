package checkpoint_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spotferry/spotferry/checkpoint"
	"github.com/spotferry/spotferry/checkpoint/chunk"
	"github.com/spotferry/spotferry/checkpoint/store/mem"
	"github.com/spotferry/spotferry/checkpoint/storetest"
)

// tensors is a safetensors file of one bf16 tensor with values as trained ones
// have: their exponents compress.
func tensors(n int, seed uint64) string {
	header := fmt.Sprintf(`{"w":{"dtype":"BF16","shape":[%d],"data_offsets":[0,%d]}}`, n/2, n)
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	b = append(b, header...)
	r := rand.New(rand.NewPCG(seed, 0))
	for range n / 2 {
		b = binary.LittleEndian.AppendUint16(b, uint16(r.Uint32()&0x807f)|uint16(0x3c00+(r.Uint32()%5)<<7))
	}
	return string(b)
}

// tree has a file for every way that content is stored.
func contentTree() spec {
	return spec{"model.safetensors": tensors(5<<20/2, 1), "raw.bin": string(storetest.Content(2<<20 + 17)), "twin.bin": string(storetest.Content(2<<20 + 17)),
		"zeros.bin": strings.Repeat("\x00", 3<<20), "half.bin": strings.Repeat("\x00", 1<<20) + large("end"), "state.json": strings.Repeat(`{"step": 10}`, 500),
		"sub/rng.pth": "0600 random", "sub/twin": "0600 random", "empty": "", "link": "->raw.bin"}
}

// variants are the ways in which an engine may store chunks.
func variants() map[string]checkpoint.Config {
	key := chunk.Key{1, 2, 3}
	return map[string]checkpoint.Config{
		"plain":                 {Compress: checkpoint.CompressOff},
		"compressed":            {Compress: checkpoint.CompressOn},
		"sealed":                {Compress: checkpoint.CompressOff, Key: key},
		"compressed and sealed": {Compress: checkpoint.CompressOn, Key: key},
		"in whatever pays":      {},
		"in large chunks":       {ChunkSize: 4 << 20, Memory: 1 << 20},
	}
}

func variant(t testing.TB, s checkpoint.Store, cfg checkpoint.Config) *checkpoint.Engine {
	t.Helper()
	cfg.Store, cfg.Tenant, cfg.Job = s, "acme", "job1"
	if cfg.ChunkSize == 0 {
		cfg.ChunkSize = chunk.MinSize
	}
	e, err := checkpoint.New(cfg)
	must(t, err)
	return e
}

// TestEveryWayOfStoring: what is saved comes back, the store has no more than it
// should, a second process of the same epoch sends nothing again, and the
// checkpoint verifies without a key in all but its content.
func TestEveryWayOfStoring(t *testing.T) {
	t.Parallel()
	dir := write(t, "checkpoint-1", contentTree())
	for name, cfg := range variants() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := mem.New(mem.Config{})
			ref, err := variant(t, s, cfg).Upload(t.Context(), checkpoint.SaveRequest{Dir: dir, Epoch: 3, Step: 1})
			must(t, err)
			must(t, checkpoint.Verify(t.Context(), s, "acme", "job1", ref, false))
			must(t, variant(t, s, cfg).Verify(t.Context(), ref, true))
			got, err := restore(t, variant(t, s, cfg), []checkpoint.Ref{ref})
			must(t, err)
			same(t, snapshot(t, got.Path), snapshot(t, dir))

			next := variant(t, s, cfg)
			_, err = next.Upload(t.Context(), checkpoint.SaveRequest{Dir: dir, Epoch: 3, Step: 2})
			must(t, err)
			if sent := next.Progress().Sent; sent > 0 {
				t.Errorf("%d bytes were sent again", sent)
			}
			var stored int64
			for _, o := range got.Manifest.Objects() {
				stored += o.Size
			}
			compressed := cfg.Compress == checkpoint.CompressOn
			if files, size := got.Manifest.Totals(); stored >= size-5<<20 || compressed && stored > (size-6<<20)*9/10 {
				t.Errorf("%d files of %d bytes, with 4 MiB of zeros and 2 MiB twice, are stored in %d", files, size, stored)
			}
			if sealed := cfg.Key != (chunk.Key{}); sealed {
				for _, name := range s.Names() {
					s.Edit(name, func(b []byte) []byte {
						if bytes.Contains(b, storetest.Content(2 << 20)[:64]) || strings.HasSuffix(name, (chunk.Key{}).Name([]byte("random"))) {
							t.Errorf("%s gives content away", name)
						}
						return b
					})
				}
			}
		})
	}
}

// TestAnotherKey: a key that is missing or wrong is no proof that a checkpoint is
// bad, and costs no work.
func TestAnotherKey(t *testing.T) {
	t.Parallel()
	dir := write(t, "checkpoint-1", spec{"a": large("a"), "b": "b"})
	s := mem.New(mem.Config{})
	sealed, plain := checkpoint.Config{Key: chunk.Key{1}}, checkpoint.Config{}
	ref, err := variant(t, s, sealed).Upload(t.Context(), checkpoint.SaveRequest{Dir: dir, Epoch: 1, Step: 1})
	must(t, err)
	open, err := variant(t, s, plain).Upload(t.Context(), checkpoint.SaveRequest{Dir: dir, Epoch: 2, Step: 1})
	must(t, err)
	for name, tc := range map[string]struct {
		cfg checkpoint.Config
		ref checkpoint.Ref
	}{
		"no key":                 {plain, ref},
		"another key":            {checkpoint.Config{Key: chunk.Key{2}}, ref},
		"a key and none is used": {sealed, open},
	} {
		got, err := restore(t, variant(t, s, tc.cfg), []checkpoint.Ref{tc.ref})
		if !errors.Is(err, checkpoint.ErrKey) || len(got.Rejected) > 0 {
			t.Errorf("%s: Restore = %v, rejected %v; want ErrKey alone", name, err, got.Rejected)
		}
	}
	_, err = restore(t, variant(t, s, sealed), []checkpoint.Ref{ref})
	must(t, err)
}

// TestAFlippedBit flips bits of every object of a checkpoint, in every way of
// storing it: each is found, the file is named, and the previous one used.
func TestAFlippedBit(t *testing.T) {
	t.Parallel()
	first, second := write(t, "checkpoint-1", spec{"a": "1"}), write(t, "checkpoint-2", contentTree())
	r := rand.New(rand.NewPCG(7, 7))
	for name, cfg := range variants() {
		base := mem.New(mem.Config{})
		old, err := variant(t, base, cfg).Upload(t.Context(), checkpoint.SaveRequest{Dir: first, Epoch: 1, Step: 1})
		must(t, err)
		shared := base.Names()
		ref, err := variant(t, base, cfg).Upload(t.Context(), checkpoint.SaveRequest{Dir: second, Epoch: 2, Step: 2})
		must(t, err)
		m := manifestOf(t, base, ref)
		for _, object := range base.Names() {
			wants := filesIn(m, object)
			if wants == nil || contains(shared, object) {
				continue
			}
			for range 4 {
				bit := r.IntN(1 << 30)
				t.Run(fmt.Sprintf("%s: bit %d of %q", name, bit, wants), func(t *testing.T) {
					t.Parallel()
					s := base.Clone(mem.Config{})
					s.Edit(object, mem.Flipped(bit))
					got, err := restore(t, variant(t, s, cfg), []checkpoint.Ref{ref, old})
					must(t, err)
					if got.Ref != old || len(got.Rejected) != 1 || !rejects(&got.Rejected[0], wants) {
						t.Fatalf("restored %s, rejected %v; want the previous one, and one of %q named", got.Ref.Name, got.Rejected, wants)
					}
					if err := variant(t, s, cfg).Verify(t.Context(), ref, true); !rejects(err, wants) {
						t.Errorf("Verify = %v, want a rejection of one of %q", err, wants)
					}
					same(t, snapshot(t, got.Path), snapshot(t, first))
				})
			}
		}
	}
}

func contains(names []string, name string) bool {
	for _, n := range names {
		if n == name {
			return true
		}
	}
	return false
}

// TestCompressionDecides: a codec is used where the link is slow, and not where
// it is fast, and what was chosen is written down with each chunk. In a bubble
// only the store takes time.
func TestCompressionDecides(t *testing.T) {
	t.Parallel()
	dir := write(t, "checkpoint-1", spec{"model.safetensors": tensors(24<<20, 3)})
	for _, tc := range []struct {
		name  string
		delay time.Duration // of each put
		codec string
	}{
		{"over a slow link", 50 * time.Millisecond, string(chunk.Planes)},
		{"into memory", 0, ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := mem.New(mem.Config{Plan: func(op mem.Op) mem.Fault {
				if op.Verb == mem.Put {
					return mem.Fault{Delay: tc.delay}
				}
				return mem.Fault{}
			}})
			e := variant(t, s, checkpoint.Config{Workers: 1, Cores: 1})
			ref, err := e.Upload(t.Context(), checkpoint.SaveRequest{Dir: dir, Epoch: 1, Step: 1})
			must(t, err)
			chunks := manifestOf(t, s, ref).Files[1].Chunks
			if last := chunks[len(chunks)-1]; last.Codec != tc.codec {
				t.Errorf("%s: the last of %d chunks has codec %q, want %q", tc.name, len(chunks), last.Codec, tc.codec)
			}
		})
	}
}
