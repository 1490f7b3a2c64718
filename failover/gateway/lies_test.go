package gateway

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/spotferry/spotferry/checkpoint"
	"github.com/spotferry/spotferry/checkpoint/chunk"
	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/failover"
)

// forge puts a manifest with these chunks, and the objects of those that are to
// be there, and returns the request to commit it.
func (r *rig) forge(l events.LeaseID, epoch int, step int64, there map[string]int64, change func(*checkpoint.Manifest), chunks ...checkpoint.Chunk) events.CommitRequest {
	r.t.Helper()
	for name, size := range there {
		if err := r.store.Put(r.t.Context(), name, bytes.NewReader(make([]byte, size)), size); err != nil {
			r.t.Fatal(err)
		}
	}
	var size int64
	for _, c := range chunks {
		size += c.Size
	}
	m := checkpoint.Manifest{Schema: checkpoint.Schema, Tenant: string(org), Job: string(job), Epoch: epoch, Step: step, Dir: "c", Created: t0, Files: []checkpoint.File{
		{Path: ".", Kind: checkpoint.Directory, Mode: 0o700}, {Path: "f", Kind: checkpoint.Regular, Mode: 0o600, Size: size, Chunks: chunks},
	}}
	if change != nil {
		change(&m)
	}
	data, err := m.Encode()
	if err != nil {
		r.t.Fatal(err)
	}
	digest := chunk.Key{}.Name(data)
	name := fmt.Sprintf("%010d-%020d-%s.manifest", m.Epoch, m.Step, digest[:16])
	if err := r.store.Put(r.t.Context(), checkpoint.Prefix(string(org), string(job))+name, bytes.NewReader(data), int64(len(data))); err != nil {
		r.t.Fatal(err)
	}
	files, total := m.Totals()
	return events.CommitRequest{Lease: l, Checkpoint: events.Checkpoint{Name: name, Epoch: m.Epoch, Step: m.Step, Digest: digest, Bytes: total, Files: files}}
}

func hashOf(letter string) string { return strings.Repeat(letter, 64) }

// TestLies is what an agent may claim, and what becomes of it: a job in epoch 2
// whose epoch 1 has committed a checkpoint with a, and whose epoch 2 one with b.
func TestLies(t *testing.T) {
	t.Parallel()
	a, b := objectOf(1, "a"), objectOf(2, "b")
	own := func(letter string) map[string]int64 { return map[string]int64{objectOf(2, letter).Name: 10} }
	c := func(letter string, epoch int) checkpoint.Chunk {
		return checkpoint.Chunk{Hash: hashOf(letter), Size: 10, Epoch: epoch}
	}
	for _, tc := range []struct {
		name   string
		there  map[string]int64
		change func(*checkpoint.Manifest)
		chunks []checkpoint.Chunk
		before func(r *rig, l events.LeaseID)
		want   string // in the refusal; "": it is committed
	}{
		{"what it has put itself", own("d"), nil, []checkpoint.Chunk{c("d", 0)}, nil, ""},
		{"and what kept checkpoints need, be it of an older epoch", nil, nil, []checkpoint.Chunk{c("a", 1), c("b", 0)}, nil, ""},
		{"which is not looked at again", nil, nil, []checkpoint.Chunk{c("a", 1)}, func(r *rig, _ events.LeaseID) { r.blind = true }, ""},
		{"an object that is not there", nil, nil, []checkpoint.Chunk{c("d", 0)}, nil, "not found"},
		{"one of another size", map[string]int64{objectOf(2, "d").Name: 9}, nil, []checkpoint.Chunk{c("d", 0)}, nil, "9 bytes, want 10"},
		{"one of another size than the kept checkpoint says", nil, nil, []checkpoint.Chunk{{Hash: hashOf("b"), Size: 11}}, nil, "has 11 bytes here and 10"},
		{"one of an older epoch that no kept checkpoint needs", map[string]int64{objectOf(1, "d").Name: 10}, nil, []checkpoint.Chunk{c("d", 1)}, nil, "is of epoch 1"},
		{"one that only a dropped checkpoint needs", nil, nil, []checkpoint.Chunk{c("a", 1)}, func(r *rig, l events.LeaseID) { r.outgrow(l, 1) }, "is of epoch 1"},
		{"one of its own epoch that a dropped checkpoint needs: it may be going", nil, nil, []checkpoint.Chunk{c("b", 0)}, func(r *rig, l events.LeaseID) { r.outgrow(l, 2) }, "was dropped"},
		{"also when it has been deleted and put again", nil, nil, []checkpoint.Chunk{c("b", 0)}, func(r *rig, l events.LeaseID) {
			r.outgrow(l, 2)
			r.now = r.now.Add(time.Hour)
			if got, err := r.gateway.Collect(t.Context(), CollectRequest{Job: job}); err != nil || got.Objects == 0 {
				r.t.Fatalf("%+v, %v", got, err)
			}
			_ = r.store.Put(t.Context(), b.Name, strings.NewReader("0123456789"), 10)
		}, "was dropped"},
		{"one of a checkpoint that did not restore", nil, nil, []checkpoint.Chunk{c("a", 1)}, func(r *rig, l events.LeaseID) {
			request[events.Reply](r, 2, events.VerbReject, events.RejectRequest{Lease: l, Checkpoint: r.job().Commits[0]})
		}, "is of epoch 1"},
		{"a whole file of another job, as old manifests name it", map[string]int64{"v1/acme/files/dd/" + hashOf("d"): 10}, func(m *checkpoint.Manifest) {
			m.Schema, m.Files[1].Chunks, m.Files[1].Hash, m.Files[1].Size = 1, nil, hashOf("d"), 10
		}, nil, nil, ""},
		{"but one that is there", nil, func(m *checkpoint.Manifest) {
			m.Schema, m.Files[1].Chunks, m.Files[1].Hash, m.Files[1].Size = 1, nil, hashOf("d"), 10
		}, nil, nil, "not found"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r, l := placed(t)
			if got := r.commit(1, r.forge(l, 1, 1, map[string]int64{a.Name: 10}, nil, c("a", 0))); got != nil {
				t.Fatal(got)
			}
			r.gone(l)
			l = r.buy(2, 1)
			r.join(2, l, "UB")
			if got := r.commit(2, r.forge(l, 2, 2, map[string]int64{b.Name: 10}, nil, c("b", 0))); got != nil {
				t.Fatal(got)
			}
			if tc.before != nil {
				tc.before(r, l)
			}
			got := r.commit(2, r.forge(l, 2, 100, tc.there, tc.change, tc.chunks...))
			switch {
			case tc.want == "" && got != nil:
				t.Errorf("refused: %v", got)
			case tc.want != "" && (code(got) != events.RefusedInvalid || !strings.Contains(got.Message, tc.want)):
				t.Errorf("%v, want invalid: %s", got, tc.want)
			}
		})
	}
}

// outgrow commits until the policy keeps the n-th checkpoint no longer, and has it dropped.
func (r *rig) outgrow(l events.LeaseID, n int) {
	r.t.Helper()
	for step := range int64(n + 2) {
		letter := fmt.Sprintf("%x", 14-step%3)
		name := objectOf(2, letter).Name[:len(objectOf(2, letter).Name)-1] + fmt.Sprint(step)
		hash := name[len(name)-64:]
		if got := r.commit(2, r.forge(l, 2, 10+step, map[string]int64{name: 10}, nil, checkpoint.Chunk{Hash: hash, Size: 10})); got != nil {
			r.t.Fatal(got)
		}
	}
	r.apply(failover.Collect{Retention: failover.Retention{Evidence: time.Hour}})
	if got := len(r.job().Drops); got < n {
		r.t.Fatalf("%d checkpoints are dropped, want %d", got, n)
	}
}

// TestAnObjectOfALaterEpochCannotBeNamed: the manifest itself refuses that, as it does every name outside its job.
func TestAnObjectOfALaterEpochCannotBeNamed(t *testing.T) {
	t.Parallel()
	m := checkpoint.Manifest{Schema: checkpoint.Schema, Tenant: string(org), Job: string(job), Epoch: 2, Step: 1}
	for name, want := range map[string]bool{
		objectOf(2, "a").Name: true, objectOf(3, "a").Name: false, objectOf(1, "a").Name: false,
		strings.Replace(objectOf(2, "a").Name, "/j1/", "/j2/", 1): false, strings.Replace(objectOf(2, "a").Name, "/acme/", "/other/", 1): false,
		"v1/acme/files/aa/" + hashOf("a"): false, objectOf(2, "a").Name + "/x": false, strings.Replace(objectOf(2, "a").Name, "0000000002", "2", 1): false,
	} {
		if err := ownOf(failover.Job{ID: job, Attribution: events.Attribution{Org: org}}, m, name); (err == nil) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestADropWhileACommitIsLookedAt: what was seen proves nothing any more, and is looked at again.
func TestADropWhileACommitIsLookedAt(t *testing.T) {
	r, l := placed(t)
	for step := range int64(4) {
		r.commit(1, r.save(l, 1, step+1))
	}
	c := r.save(l, 1, 10)
	looks := 0
	r.onStat = func() {
		if looks++; looks == 1 {
			r.apply(failover.Drop{Names: []string{r.job().Commits[0].Name}, By: "ann", Reason: "room"})
		}
	}
	if got := r.commit(1, c); got != nil || looks < 2 {
		t.Errorf("%v after %d looks", got, looks)
	}
}

// TestNoGrantReachesAnythingElse: whatever an agent asks for, what is signed is
// of its own epoch to write, and of its own job or an input of its organisation to read.
func TestNoGrantReachesAnythingElse(t *testing.T) {
	r, l := placed(t)
	s := &signer{}
	cfg := r.config()
	cfg.Grant, cfg.Signer = events.StoreGrant{Kind: "signed"}, s
	r.gateway = New(cfg)
	parts := []string{"v1", "v2", "acme", "other", "jobs", "j1", "j2", "data", "ckpt", "inputs", "files", "0000000001", "0000000002", "1", "..", ".", "",
		hashOf("a"), hashOf("A"), hashOf("a")[:63], "0000000001-00000000000000000007-" + strings.Repeat("b", 16) + ".manifest",
		"0000000002-00000000000000000007-" + strings.Repeat("b", 16) + ".manifest", "0000000001-7-" + strings.Repeat("b", 16) + ".manifest", "HEAD", "%2e%2e", "\x00"}
	likely := []string{objectOf(1, "a").Name, objectOf(2, "a").Name, checkpoint.Prefix("acme", "j1") + parts[20], checkpoint.Prefix("acme", "j2") + parts[20], InputPrefix("acme") + "a/b", InputPrefix("other") + "a"}
	rapid.Check(t, func(rt *rapid.T) {
		name := rapid.OneOf(rapid.SampledFrom(likely), rapid.Map(rapid.SliceOfN(rapid.SampledFrom(parts), 1, 8), func(p []string) string { return strings.Join(p, "/") }),
			rapid.Map(rapid.SampledFrom(likely), func(n string) string { return n + "/.." }), rapid.String())
		q := events.GrantRequest{Lease: l, Verb: rapid.SampledFrom([]string{"put", "get", "head", "delete", "list", "PUT", ""}).Draw(rt, "verb")}
		for range rapid.IntRange(0, events.MaxGrants+2).Draw(rt, "names") % 70 {
			q.Names = append(q.Names, events.GrantObject{Name: name.Draw(rt, "name"), Size: rapid.Int64Range(-1, 1<<40).Draw(rt, "size")})
		}
		epoch := rapid.SampledFrom([]int{1, 1, 1, 2, 7}).Draw(rt, "epoch")
		s.signed = nil
		got := requestOf[events.GrantReply](r, job, epoch, events.VerbGrant, q)
		if got.Refusal != nil && len(got.Access) > 0 {
			rt.Fatalf("refused and granted: %+v", got)
		}
		if len(s.signed) > events.MaxGrants {
			rt.Fatalf("%d accesses", len(s.signed))
		}
		for _, a := range s.signed {
			mine := strings.HasPrefix(a.name, "v1/acme/jobs/j1/data/0000000001/") || strings.HasPrefix(a.name, "v1/acme/jobs/j1/ckpt/0000000001-")
			job := strings.HasPrefix(a.name, "v1/acme/jobs/j1/data/") || strings.HasPrefix(a.name, "v1/acme/jobs/j1/ckpt/")
			input := strings.HasPrefix(a.name, "v1/acme/inputs/")
			ok := epoch == 1 && checkpoint.ObjectName(a.name) && !strings.Contains(a.name, "..") && a.life > 0 && a.life <= time.Hour &&
				(a.verb == checkpoint.VerbPut && mine && a.size > 0 && a.size <= maxPut || (a.verb == checkpoint.VerbGet || a.verb == checkpoint.VerbHead) && (job || input))
			if !ok {
				rt.Fatalf("epoch %d got %+v", epoch, a)
			}
		}
	})
}

func TestWhoIsGrantedAccess(t *testing.T) {
	r, l := placed(t)
	cfg := r.config()
	s := &signer{}
	cfg.Grant, cfg.Signer = events.StoreGrant{Kind: "signed"}, s
	r.gateway = New(cfg)
	ask := func(epoch int, l events.LeaseID, verb, name string) string {
		return code(requestOf[events.GrantReply](r, job, epoch, events.VerbGrant, events.GrantRequest{Lease: l, Verb: verb, Names: []events.GrantObject{{Name: name, Size: 5}}}).Refusal)
	}
	one, two := objectOf(1, "a").Name, objectOf(2, "a").Name
	if got := ask(1, l, "put", one) + ask(1, l, "get", one) + ask(1, l, "head", two); got != "" {
		t.Errorf("the agent that has the job: %q", got)
	}
	r.notice(1, l, time.Minute)
	b := r.buy(2, 1)
	r.join(2, b, "UB")
	if got := ask(2, b, "get", one); got != "" {
		t.Errorf("the next, which fetches ahead: %q", got)
	}
	if got := ask(2, b, "put", two); got != events.RefusedInvalid {
		t.Errorf("the next, which writes: %q", got)
	}
	r.gone(l)
	if got := ask(1, l, "get", one) + " " + ask(1, l, "put", one); got != "fenced fenced" {
		t.Errorf("the one before: %q", got)
	}
	if got := ask(2, b, "put", two) + ask(2, b, "put", one); got != events.RefusedInvalid {
		t.Errorf("the new one: %q", got)
	}
	r.apply(failover.Cancel{By: "ann"})
	if got := ask(2, b, "put", two); got != events.RefusedFenced {
		t.Errorf("after the end: %q", got)
	}
	s.fail = true
	var reply events.GrantReply
	_ = json.Unmarshal(r.gateway.Handle(t.Context(), events.AgentSubject(job, 2, events.VerbGrant), []byte(`{"lease":7}`)), &reply)
	if code(reply.Refusal) != events.RefusedInvalid {
		t.Errorf("%+v", reply)
	}
}

// A store that is not reached by signed requests grants none, and says where it is as ever.
func TestADirectoryIsNotSigned(t *testing.T) {
	r, l := placed(t)
	got := request[events.GrantReply](r, 1, events.VerbGrant, events.GrantRequest{Lease: l, Verb: "get", Names: []events.GrantObject{{Name: objectOf(1, "a").Name}}})
	if code(got.Refusal) != events.RefusedInvalid {
		t.Errorf("%+v", got)
	}
}
