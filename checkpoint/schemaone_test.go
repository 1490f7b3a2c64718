package checkpoint_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/spotferry/spotferry/checkpoint"
	"github.com/spotferry/spotferry/checkpoint/chunk"
	"github.com/spotferry/spotferry/checkpoint/store/mem"
)

// TestSchemaOne: a checkpoint written by the first engine is verified, restored
// and no base for anything.
func TestSchemaOne(t *testing.T) {
	t.Parallel()
	s := mem.New(mem.Config{})
	m := checkpoint.Manifest{Schema: 1, Tenant: "acme", Job: "job1", Epoch: 1, Step: 7, Dir: "checkpoint-7", Created: epochStart,
		Files: []checkpoint.File{{Path: ".", Kind: checkpoint.Directory, Mode: 0o755}}}
	want := spec{"a": large("old"), "b": "0600 little", "c": ""}
	for _, name := range []string{"a", "b", "c"} {
		content := strings.TrimPrefix(want[name], "0600 ")
		hash := (chunk.Key{}).Name([]byte(content))
		f := checkpoint.File{Path: name, Kind: checkpoint.Regular, Mode: 0o644, Size: int64(len(content)), Hash: hash}
		if name == "b" {
			f.Mode = 0o600
		}
		m.Files = append(m.Files, f)
		must(t, s.Put(t.Context(), "v1/acme/files/"+hash[:2]+"/"+hash, strings.NewReader(content), f.Size))
	}
	data, err := m.Encode()
	must(t, err)
	digest := (chunk.Key{}).Name(data)
	ref := checkpoint.Ref{Epoch: 1, Step: 7, Digest: digest, Files: 3, Bytes: int64(len(want["a"])) + 6,
		Name: fmt.Sprintf("%010d-%020d-%s.manifest", 1, 7, digest[:16])}
	must(t, s.Put(t.Context(), checkpoint.ManifestName("acme", "job1", ref), bytes.NewReader(data), int64(len(data))))

	must(t, checkpoint.Verify(t.Context(), s, "acme", "job1", ref, false))
	must(t, checkpoint.Verify(t.Context(), s, "acme", "job1", ref, true))
	e := variant(t, s, checkpoint.Config{})
	got, err := restore(t, e, []checkpoint.Ref{ref})
	must(t, err)
	same(t, snapshot(t, got.Path), snapshot(t, write(t, "checkpoint-7", want)))
	next, err := e.Upload(t.Context(), checkpoint.SaveRequest{Dir: got.Path, Epoch: 2, Step: 8})
	must(t, err)
	if m := manifestOf(t, s, next); m.Schema != checkpoint.Schema || len(m.Objects()) != 2 {
		t.Errorf("the next is of schema %d with %d objects, want %d and 2", m.Schema, len(m.Objects()), checkpoint.Schema)
	}
	s.Edit("v1/acme/files/"+m.Files[1].Hash[:2]+"/"+m.Files[1].Hash, mem.Flipped(5))
	if err := checkpoint.Verify(t.Context(), s, "acme", "job1", ref, true); !isRejection(err, "a") {
		t.Errorf("Verify = %v, want a rejection of a", err)
	}
	if got, err := restore(t, e, []checkpoint.Ref{ref}); !errors.Is(err, checkpoint.ErrNoneRestorable) || got.Rejected[0].Path != "a" {
		t.Errorf("Restore = %v, want a rejection of a", err)
	}
}
