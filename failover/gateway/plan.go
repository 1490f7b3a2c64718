package gateway

import (
	"slices"
	"strings"
	"time"

	"github.com/spotferry/spotferry/checkpoint"
	"github.com/spotferry/spotferry/failover"
)

// survey is what one round of the collection has seen of a job.
type survey struct {
	job       failover.Job
	now       time.Time
	grace     time.Duration       // from a drop to the deletion
	data      []checkpoint.Object // below the job's data prefix
	manifests []checkpoint.Object // below its manifest prefix
	needs     map[string]needs    // of the checkpoints in toRead
	bad       map[string]error    // those of them that could not be read, and why
}

// plan says what a round does with a job's objects.
type plan struct {
	blocked string // why nothing is deleted; "": it is
	// first are deleted before then: no manifest outlives what it needs, except
	// those of the open epoch, which are first a list of what goes, and then the
	// proof that these names are used up.
	first, then []checkpoint.Object
	emptied     []string // dropped checkpoints of the open epoch that have nothing left to delete
	waiting     int      // dropped checkpoints whose grace is not over
	dueAt       time.Time

	objects int   // that are there
	bytes   int64 // of them
	needed  int64 // of these, what kept checkpoints need
	logical int64 // what the kept checkpoints hold
}

// open says whether somebody may still write objects of an epoch that a commit
// then counts: its agent may commit, or nothing is known of the epoch yet. This
// only ever ends.
func open(j failover.Job, epoch int) bool {
	return !j.Over() && (epoch > j.Epoch || epoch == j.Epoch && j.Current != nil)
}

// due says which dropped checkpoints have had their grace, and when the next has.
func (s survey) due() (due map[string]bool, waiting int, next time.Time) {
	due = map[string]bool{}
	for _, d := range s.job.Drops {
		at := d.At.Add(s.grace)
		if !s.now.Before(at) {
			due[d.Name] = true
			continue
		}
		waiting++
		if next.IsZero() || at.Before(next) {
			next = at
		}
	}
	return due, waiting, next
}

// plan decides by the record alone. An object goes when no checkpoint that is
// kept, or whose grace is not over, needs it, and when nobody can come to rely on it:
// its epoch is closed, or a checkpoint of the open epoch that needs it was
// dropped, so that its name is used up. Nothing else in the open epoch is
// touched: it may be part of a save under way. Names that say nothing are left alone.
func (s survey) plan() plan {
	due, waiting, next := s.due()
	p := plan{waiting: waiting, dueAt: next}
	for _, o := range slices.Concat(s.data, s.manifests) {
		p.objects++
		p.bytes += o.Size
	}
	protected := s.protected(due, &p)
	if p.blocked != "" {
		return p
	}
	tenant, job := string(s.job.Attribution.Org), string(s.job.ID)
	used := s.used(due)
	for _, o := range s.data {
		epoch, ok := dataEpoch(tenant, job, o.Name)
		if ok && !protected[o.Name] && (!open(s.job, epoch) || used[o.Name]) {
			p.then = append(p.then, o)
		}
	}
	s.manifestsOf(tenant, job, due, &p)
	for _, c := range s.job.Commits {
		if _, read := s.needs[c.Name]; due[c.Name] && open(s.job, c.Epoch) && read {
			p.emptied = append(p.emptied, c.Name)
		}
	}
	return p
}

// protected is every object that must stay, by name.
func (s survey) protected(due map[string]bool, p *plan) map[string]bool {
	rejected, gone := map[string]bool{}, map[string]bool{}
	for _, n := range s.job.Rejected {
		rejected[n] = true
	}
	for _, d := range s.job.Drops {
		gone[d.Name] = true
	}
	out, counted := map[string]bool{}, map[string]bool{}
	for _, c := range s.job.Commits {
		if due[c.Name] {
			continue
		}
		if err := s.bad[c.Name]; err != nil && !(provenBad(err) && (rejected[c.Name] || gone[c.Name])) {
			p.blocked = "the manifest of " + c.Name + " cannot be read: " + err.Error() // never guess what it needs
			return nil
		}
		if !gone[c.Name] {
			p.logical += c.Bytes
		}
		for _, o := range s.needs[c.Name].objects {
			out[o.Name] = true
			if !gone[c.Name] && !counted[o.Name] {
				counted[o.Name] = true
				p.needed += o.Size
			}
		}
	}
	return out
}

// used is every object of the open epoch that a dropped checkpoint of it needs.
func (s survey) used(due map[string]bool) map[string]bool {
	out := map[string]bool{}
	for _, c := range s.job.Commits {
		if due[c.Name] && open(s.job, c.Epoch) {
			for _, o := range s.needs[c.Name].objects {
				out[o.Name] = true
			}
		}
	}
	return out
}

// manifestsOf adds the manifests that go: of closed epochs all that are of no checkpoint, or of one
// whose grace is over.
func (s survey) manifestsOf(tenant, job string, due map[string]bool, p *plan) {
	committed := map[string]bool{}
	for _, c := range s.job.Commits {
		committed[c.Name] = true
	}
	for _, o := range s.manifests {
		epoch, ok := manifestEpoch(tenant, job, o.Name)
		name := strings.TrimPrefix(o.Name, checkpoint.Prefix(tenant, job))
		if ok && !open(s.job, epoch) && (!committed[name] || due[name]) {
			p.first = append(p.first, o)
		}
	}
}
