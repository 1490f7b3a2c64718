package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spotferry/spotferry/checkpoint"
	"github.com/spotferry/spotferry/checkpoint/store/dir"
	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/failover/gateway"
	"github.com/spotferry/spotferry/services/internal/console"
)

func TestCheckpointsAreNamedAsPeopleNameThem(t *testing.T) {
	t.Parallel()
	full := func(epoch int, step int64, hash string) console.Checkpoint {
		c := console.Checkpoint{Checkpoint: events.Checkpoint{Epoch: epoch, Step: step, Name: fmt.Sprintf("%010d-%020d-%s.manifest", epoch, step, hash)}}
		return c
	}
	a, b, gone := full(1, 100, "aaaaaaaa00000000"), full(2, 100, "bbbbbbbb00000000"), full(1, 90, "cccccccc00000000")
	b.Newest, gone.Dropped = true, &console.CheckpointDrop{}
	list := []console.Checkpoint{gone, a, b}
	for which, want := range map[string]string{
		"newest": b.Name, "100": b.Name, a.Name: a.Name, strings.TrimSuffix(a.Name, ".manifest"): a.Name, "aaaaaa": a.Name, "aaaaaaaa0000": a.Name,
		gone.Name: gone.Name, "90": "", "cccccccc": "", "aaa": "", "": "", "oldest": "",
	} {
		c, err := pick(list, "llama-7b", which)
		if c.Name != want || (err == nil) != (want != "") {
			t.Errorf("%q is %q, %v; want %q", which, c.Name, err, want)
		}
	}
}

func TestKeepingAndDroppingCheckpoints(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		args []string
		verb console.Verb
		sent string
	}{
		{[]string{"pin", "llama-7b", "1060", "--reason", "best"}, console.DoPin, `{"job":"llama-7b","names":["e2-s1060"],"reason":"best"}`},
		{[]string{"unpin", "llama-7b", "e2-s1060", "--reason", "done"}, console.DoUnpin, `{"job":"llama-7b","names":["e2-s1060"],"reason":"done"}`},
		{[]string{"rm", "llama-7b", "1000", "newest", "-y", "--reason", "room"}, console.DoDrop, `{"job":"llama-7b","names":["e2-s1000","e3-s1100"],"reason":"room"}`},
	} {
		a := system()
		a[tc.verb] = always(cannedCheckpoints())
		r := newRig(t, a)
		if got := r.run(append([]string{"checkpoint"}, tc.args[:3]...)...); got.code != 2 || !strings.Contains(got.err, "--reason") || r.ask(tc.verb) != 0 {
			t.Errorf("%v without a reason: exit %d, %s", tc.args, got.code, got.err)
		}
		if got := r.run(append([]string{"checkpoint"}, tc.args...)...); got.code != 0 || string(r.sent[tc.verb]) != tc.sent || strings.Count(got.out, "\n") != 1 {
			t.Errorf("%v: exit %d, sent %s\n%s%s", tc.args, got.code, r.sent[tc.verb], got.out, got.err)
		}
		a[tc.verb] = always(&console.Problem{Code: "conflict", Message: "checkpoint is pinned by bob", Remedy: "take the pin off"})
		if got := r.run(append([]string{"checkpoint"}, tc.args...)...); got.code != 6 || !strings.Contains(got.err, "take the pin off") {
			t.Errorf("%v refused: exit %d, %s", tc.args, got.code, got.err)
		}
	}
	r := newRig(t, system())
	if got := r.run("checkpoint", "rm", "llama-7b", "1000", "--reason", "room"); got.code != 2 || r.ask(console.DoDrop) != 0 {
		t.Errorf("dropping without anybody to ask: exit %d, %s", got.code, got.err)
	}
}

func TestCollectingGoesOnUntilNothingIsLeft(t *testing.T) {
	t.Parallel()
	a := system()
	rounds := 0
	a[console.DoCollect] = func([]byte) any {
		rounds++
		return gateway.Collected{Job: cannedJob, Dropped: []string{"x"}, Objects: 2, Bytes: 1000, More: rounds < 3, Waiting: 1, NextDue: now.Add(time.Minute)}
	}
	a[console.GetCollectable] = always(gateway.Collected{Job: cannedJob, DryRun: true, Objects: 5, Bytes: 9000})
	r := newRig(t, a)
	if got := r.run("checkpoint", "gc", "llama-7b", "--reason", "disk", "-o", "json"); got.code != 0 || !strings.Contains(got.out, `"objects": 6`) || !strings.Contains(got.out, `"bytes": 3000`) {
		t.Errorf("exit %d, %s%s", got.code, got.out, got.err)
	}
	if got := r.run("checkpoint", "gc", "--dry-run"); got.code != 0 || !strings.Contains(got.out, "Nothing was changed") || r.ask(console.DoCollect) != 3 {
		t.Errorf("exit %d, %s%s", got.code, got.out, got.err)
	}
	if got := r.run("checkpoint", "gc"); got.code != 2 {
		t.Errorf("without a reason: exit %d", got.code)
	}
}

func TestCompletionOffersCheckpoints(t *testing.T) {
	t.Parallel()
	r := newRig(t, system())
	if got := r.run("__complete", "checkpoint", "restore", "llama-7b", ""); !strings.Contains(got.out, "newest\t") || !strings.Contains(got.out, "e2-s1060\tstep 1060") || strings.Contains(got.out, "e2-s900") {
		t.Errorf("restore: %q", got.out)
	}
	if got := r.run("__complete", "checkpoint", "unpin", "llama-7b", ""); strings.Contains(got.out, "e3-s1100") || !strings.Contains(got.out, "e2-s1060") {
		t.Errorf("unpin: %q", got.out)
	}
	if got := r.run("__complete", "checkpoint", "rm", "llama-7b", "e2-s1060", ""); strings.Contains(got.out, "e2-s1060") || !strings.Contains(got.out, "e2-s1000") {
		t.Errorf("rm: %q", got.out)
	}
}

// shelfOf is a store in a directory with two checkpoints of the canned job, and a system that knows them.
func shelfOf(t *testing.T) (answers, string, []events.Checkpoint) {
	t.Helper()
	at := t.TempDir()
	store, err := dir.Open(dir.Config{Path: at})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	e, err := checkpoint.New(checkpoint.Config{Store: store, Tenant: "local", Job: string(cannedJob), Now: func() time.Time { return start }})
	if err != nil {
		t.Fatal(err)
	}
	var list []console.Checkpoint
	var kept []events.Checkpoint
	for i, step := range []int64{1000, 1100} {
		tree := t.TempDir()
		for name, b := range map[string][]byte{"weights": noise(i, 1<<20), "state.json": fmt.Append(nil, `{"step":`, step, "}")} {
			if err := os.WriteFile(filepath.Join(tree, name), b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		ref, err := e.Upload(t.Context(), checkpoint.SaveRequest{Dir: tree, As: fmt.Sprint("checkpoint-", step), Epoch: 2, Step: step})
		if err != nil {
			t.Fatal(err)
		}
		c := events.Checkpoint{Name: ref.Name, Epoch: ref.Epoch, Step: ref.Step, Digest: ref.Digest, Bytes: ref.Bytes, Files: ref.Files}
		kept = append(kept, c)
		list = append(list, console.Checkpoint{Checkpoint: c, Committed: start.Add(time.Duration(i) * time.Minute), Newest: i == 1})
	}
	a := system()
	a[console.GetCheckpoints] = always(list)
	a[console.GetCheckpoint] = func(body []byte) any {
		var q console.CheckpointQuery
		_ = json.Unmarshal(body, &q)
		i := slices.IndexFunc(list, func(c console.Checkpoint) bool { return c.Name == q.Name })
		return gateway.Contents{Job: cannedJob, Name: q.Name, Dir: fmt.Sprint("checkpoint-", list[i].Step)}
	}
	a[console.GetCheckpointAccess] = always(gateway.Access{Store: events.StoreGrant{Kind: "dir", Path: at, Tenant: "local"}})
	a[console.DoPin], a[console.DoUnpin] = always(list), always(list)
	return a, at, kept
}

// noise does not compress.
func noise(seed, n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{byte(seed)}).Read(b)
	return b
}

// spoil flips a byte of the object that holds what only one checkpoint has.
func spoil(t *testing.T, at string, c events.Checkpoint, other events.Checkpoint) {
	t.Helper()
	store, err := dir.Open(dir.Config{Path: at})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	objects := func(c events.Checkpoint) []checkpoint.Object {
		m, err := checkpoint.ReadManifest(context.Background(), store, "local", string(cannedJob), refOf(c))
		if err != nil {
			t.Fatal(err)
		}
		return m.Objects()
	}
	shared := objects(other)
	only := slices.DeleteFunc(objects(c), func(o checkpoint.Object) bool { return slices.Contains(shared, o) })
	if len(only) == 0 {
		t.Fatal("nothing is only in that checkpoint")
	}
	o := slices.MaxFunc(only, func(a, b checkpoint.Object) int { return cmp.Compare(a.Size, b.Size) })
	spoiled := 0
	err = filepath.Walk(at, func(p string, info os.FileInfo, err error) error {
		if err != nil || info.IsDir() || info.Size() != o.Size || !strings.Contains(p, path.Base(o.Name)) {
			return err
		}
		b, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		spoiled++
		b[len(b)/2] ^= 1
		return errors.Join(os.Chmod(p, 0o600), os.WriteFile(p, b, 0o600))
	})
	if err != nil || spoiled != 1 {
		t.Fatalf("%d files, %v", spoiled, err)
	}
}

func TestRestoringToADirectory(t *testing.T) {
	t.Parallel()
	a, at, kept := shelfOf(t)
	r := newRig(t, a)
	to := filepath.Join(t.TempDir(), "result")
	got := r.run("checkpoint", "restore", "llama-7b", "newest", to)
	if got.code != 0 || !strings.Contains(got.out, "Step 1100 is in "+to+"/checkpoint-1100") {
		t.Fatalf("exit %d, %s%s", got.code, got.out, got.err)
	}
	if b, err := os.ReadFile(filepath.Join(to, "checkpoint-1100", "state.json")); err != nil || string(b) != `{"step":1100}` {
		t.Errorf("%q, %v", b, err)
	}
	if r.ask(console.DoPin) != 1 || r.ask(console.DoUnpin) != 1 || !strings.Contains(string(r.sent[console.DoPin]), `"holder":"restore-`) || !strings.Contains(string(r.sent[console.DoPin]), `"for_s":3600`) {
		t.Errorf("pinned %d times with %s, unpinned %d times", r.ask(console.DoPin), r.sent[console.DoPin], r.ask(console.DoUnpin))
	}
	if got := r.run("checkpoint", "restore", "llama-7b", "newest", to); got.code != 6 || !strings.Contains(got.err, "is there already") {
		t.Errorf("over what is there: exit %d, %s", got.code, got.err)
	}
	for _, deep := range []string{"--deep", "--deep=false"} {
		if got := r.run("checkpoint", "verify", "llama-7b", "1100", deep); got.code != 0 {
			t.Errorf("verify %s: exit %d, %s", deep, got.code, got.err)
		}
	}

	spoil(t, at, kept[1], kept[0])
	if got := r.run("checkpoint", "verify", "llama-7b", "-o", "json", "--deep"); got.code != 100 || !strings.Contains(got.err, "weights") || !strings.Contains(got.out, `"good": false`) {
		t.Errorf("verify of a bad one: exit %d, %s%s", got.code, got.out, got.err)
	}
	to = filepath.Join(t.TempDir(), "again")
	if got := r.run("checkpoint", "restore", "llama-7b", "newest", to); got.code != 100 || !strings.Contains(got.err, `"weights"`) || !strings.Contains(got.err, "--fallback") {
		t.Errorf("a bad one: exit %d, %s", got.code, got.err)
	}
	if list, _ := os.ReadDir(to); len(list) != 0 {
		t.Errorf("a bad one left %v", list)
	}
	if got := r.run("checkpoint", "restore", "llama-7b", "newest", to, "--fallback", "-o", "json"); got.code != 0 || !strings.Contains(got.out, `"step": 1000`) || !strings.Contains(got.out, "weights") {
		t.Errorf("with --fallback: exit %d, %s%s", got.code, got.out, got.err)
	}
	spoil(t, at, kept[0], kept[1])
	if got := r.run("checkpoint", "restore", "llama-7b", "newest", filepath.Join(t.TempDir(), "x"), "--fallback"); got.code != 100 || !strings.Contains(got.err, "none of 2 checkpoints") {
		t.Errorf("with all bad: exit %d, %s", got.code, got.err)
	}
	if r.ask(console.DoPin) != r.ask(console.DoUnpin) {
		t.Errorf("%d pins, %d taken off", r.ask(console.DoPin), r.ask(console.DoUnpin))
	}
}

func TestAStoreThatIsElsewhereIsToldSo(t *testing.T) {
	t.Parallel()
	a, _, _ := shelfOf(t)
	a[console.GetCheckpointAccess] = always(gateway.Access{Store: events.StoreGrant{Kind: "dir", Path: "/nonexistent/store", Tenant: "local"}})
	if got := newRig(t, a).run("checkpoint", "verify", "llama-7b"); got.code != 4 || !strings.Contains(got.err, "where the system runs") {
		t.Errorf("exit %d, %s", got.code, got.err)
	}
	a[console.GetCheckpointUse] = always(&console.Problem{Code: "unavailable", Message: "the checkpoint store cannot be asked here"})
	if got := newRig(t, a).run("checkpoint", "ls", "llama-7b"); got.code != 0 || strings.Contains(got.out, "SHARED") || !strings.Contains(got.out, "cannot be asked here") {
		t.Errorf("exit %d, %s%s", got.code, got.out, got.err)
	}
}
