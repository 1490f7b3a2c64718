package gateway

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/spotferry/spotferry/checkpoint"
	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/failover"
)

// objectOf is a chunk of an epoch, called by a letter.
func objectOf(epoch int, letter string) checkpoint.Object {
	return checkpoint.Object{Name: checkpoint.EpochPrefix(string(org), string(job), epoch) + strings.Repeat(letter, 64), Size: 10}
}

func manifestOf(epoch, step int) (string, checkpoint.Object) {
	name := fmt.Sprintf("%010d-%020d-%s.manifest", epoch, step, strings.Repeat("c", 16))
	return name, checkpoint.Object{Name: checkpoint.Prefix(string(org), string(job)) + name, Size: 1}
}

// sketch is a job in epoch 2 with one checkpoint of epoch 1 and two of its own:
// 1 needs a and b of epoch 1; 2 needs b and, of its own, c; 3 needs c and d.
func sketch() survey {
	n1, m1 := manifestOf(1, 10)
	n2, m2 := manifestOf(2, 20)
	n3, m3 := manifestOf(2, 30)
	a, b, c, d := objectOf(1, "a"), objectOf(1, "b"), objectOf(2, "c"), objectOf(2, "d")
	return survey{
		job: failover.Job{ID: job, Attribution: events.Attribution{Org: org}, Epoch: 2, Current: &failover.Machine{Epoch: 2}, Commits: []events.Checkpoint{
			{Name: n1, Epoch: 1, Step: 10, Bytes: 100}, {Name: n2, Epoch: 2, Step: 20, Bytes: 100}, {Name: n3, Epoch: 2, Step: 30, Bytes: 100},
		}},
		now: t0.Add(time.Hour), grace: time.Minute,
		data: []checkpoint.Object{a, b, c, d}, manifests: []checkpoint.Object{m1, m2, m3},
		needs: map[string]needs{n1: {2, []checkpoint.Object{a, b}}, n2: {2, []checkpoint.Object{b, c}}, n3: {2, []checkpoint.Object{c, d}}},
		bad:   map[string]error{},
	}
}

// drop has some of a sketch's checkpoints dropped a time ago.
func (s *survey) drop(ago time.Duration, which ...int) {
	for _, n := range which {
		s.job.Drops = append(s.job.Drops, failover.Dropped{Name: s.job.Commits[n-1].Name, At: s.now.Add(-ago)})
	}
}

func TestWhatARoundDeletes(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		do      func(s *survey)
		want    string // letters of data, numbers of manifests, in the order of their deletion
		blocked bool
	}{
		{"nothing while everything is kept", func(s *survey) {}, "", false},
		{"nothing before the grace is over", func(s *survey) { s.drop(time.Minute-1, 1, 2) }, "", false},
		{"then the manifest of a closed epoch first, and what only it needed", func(s *survey) { s.drop(time.Minute, 1) }, "10 a", false},
		{"in the open epoch its objects alone: the manifest says which names are used up", func(s *survey) { s.drop(time.Hour, 3) }, "d", false},
		{"what a kept one shares stays", func(s *survey) { s.drop(time.Hour, 2) }, "", false},
		{"two that share go together", func(s *survey) { s.drop(time.Hour, 1, 2) }, "10 a b", false},
		{"but not while one of them has its grace", func(s *survey) { s.drop(time.Hour, 1); s.drop(time.Second, 2) }, "10 a", false},
		{"what nobody names in the open epoch may be of a save under way", func(s *survey) { s.data = append(s.data, objectOf(2, "e")) }, "", false},
		{"in a closed one it is what a zombie left", func(s *survey) { s.data = append(s.data, objectOf(1, "e")) }, "e", false},
		{"of an epoch that is not known yet nothing is touched", func(s *survey) { s.data = append(s.data, objectOf(3, "e")) }, "", false},
		{"a manifest that was never committed goes with its epoch", func(s *survey) {
			_, old := manifestOf(1, 11)
			_, own := manifestOf(2, 31)
			s.manifests = append(s.manifests, old, own)
		}, "11", false},
		{"without a machine the epoch is closed", func(s *survey) {
			s.job.Current = nil
			s.data = append(s.data, objectOf(2, "e"))
			s.drop(time.Hour, 2)
		}, "20 e", false},
		{"and so it is when the job has ended", func(s *survey) { s.job.Outcome = events.Succeeded; s.drop(time.Hour, 1, 2) }, "10 20 a b", false},
		{"names that say nothing are left alone", func(s *survey) {
			for _, n := range []string{"x", "0000000001/short", "1/" + strings.Repeat("e", 64), "0000000001/" + strings.Repeat("E", 64), "0000000001/x/" + strings.Repeat("e", 64)} {
				s.data = append(s.data, checkpoint.Object{Name: checkpoint.DataPrefix(string(org), string(job)) + n})
			}
			s.manifests = append(s.manifests, checkpoint.Object{Name: checkpoint.Prefix(string(org), string(job)) + "HEAD"})
		}, "", false},
		{"a kept manifest that is missing stops everything", func(s *survey) { s.drop(time.Hour, 1); s.bad[s.job.Commits[2].Name] = checkpoint.ErrNotFound }, "", true},
		{"also one that nobody could read", func(s *survey) { s.drop(time.Hour, 1); s.bad[s.job.Commits[1].Name] = errors.New("reset") }, "", true},
		{"one that did not restore, and is proven bad, does not", func(s *survey) {
			s.drop(time.Hour, 1)
			n := s.job.Commits[2].Name
			s.job.Rejected, s.job.RejectAt = []string{n}, []time.Time{s.now}
			s.bad[n] = checkpoint.ErrCorrupt
			delete(s.needs, n)
		}, "10 a", false},
		{"it does when the store could not say", func(s *survey) {
			s.drop(time.Hour, 1)
			n := s.job.Commits[2].Name
			s.job.Rejected, s.job.RejectAt = []string{n}, []time.Time{s.now}
			s.bad[n] = errors.New("reset")
		}, "", true},
		{"the manifest of one whose grace is over need not be read", func(s *survey) { s.drop(time.Hour, 1); delete(s.needs, s.job.Commits[0].Name) }, "10 a", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := sketch()
			tc.do(&s)
			p := s.plan()
			var got []string
			for _, o := range p.first {
				var epoch, step int
				_, _ = fmt.Sscanf(o.Name[strings.LastIndex(o.Name, "/")+1:], "%d-%d", &epoch, &step)
				got = append(got, fmt.Sprint(step))
			}
			for _, o := range p.then {
				got = append(got, o.Name[len(o.Name)-1:])
			}
			if strings.Join(got, " ") != tc.want || (p.blocked != "") != tc.blocked {
				t.Errorf("deletes %q, blocked %q; want %q", got, p.blocked, tc.want)
			}
		})
	}
}

func TestWhatIsCounted(t *testing.T) {
	t.Parallel()
	s := sketch()
	s.drop(time.Second, 1)
	p := s.plan()
	if p.objects != 7 || p.bytes != 43 || p.needed != 30 || p.logical != 200 || p.waiting != 1 || !p.dueAt.Equal(s.now.Add(59*time.Second)) {
		t.Errorf("%+v", p)
	}
}
