package gcpfake

import (
	"context"
	"net/http"
	"path"
	"regexp"
	"strings"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/events"
)

// machine is one of the seller behind and what is known of it here, nil if it
// was not made here.
type machine struct {
	provider.Instance
	rec *record
}

// machines are those of the seller behind, and whether it showed all.
func (f *Fake) machines(ctx context.Context) ([]machine, bool, error) {
	l, err := f.backend.List(ctx)
	if err != nil {
		return nil, false, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	byName := map[string]*record{}
	for _, r := range f.records {
		byName[r.name] = r
	}
	var out []machine
	for _, i := range l.Instances {
		m := machine{i, byName[i.Token]}
		if m.rec != nil {
			m.rec.behind, m.rec.made, m.rec.born = i.ID, true, i.Started
			m.rec.insert.begun = i.Started
		}
		out = append(out, m)
	}
	return out, l.Complete, nil
}

// stays says whether a machine that has ended is still there, stopped.
func (f *Fake) stays(m machine) bool {
	if m.rec == nil || !m.rec.buried.IsZero() {
		return false
	}
	switch m.EndedBy {
	case "machine", "fault":
		return true
	case "seller":
		return f.cfg.Stays || m.rec.wire.Scheduling.Action != "DELETE"
	}
	return false
}

// endings are the operations that ended a machine, or are about to; f.mu is held.
func (f *Fake) endings(m machine) []*operation {
	var out []*operation
	if m.rec.deleted != nil {
		out = append(out, m.rec.deleted)
	}
	if m.State != provider.Gone {
		return out
	}
	if kind := kinds[m.EndedBy]; kind != "" {
		o := f.ending(m, kind)
		o.finish(m.Ended, nil)
		out = append(out, o)
	} else if m.rec.deleted == nil {
		o := f.ending(m, "delete")
		o.finish(m.Ended, nil)
		out = append(out, o)
	}
	if d := m.rec.deleted; d != nil {
		at := m.Ended
		if m.rec.buried.After(at) {
			at = m.rec.buried
		}
		d.finish(at, nil)
	}
	return out
}

// kinds are the operations by which somebody else ends a machine.
var kinds = map[string]string{
	"seller": "compute.instances.preempted", "machine": "compute.instances.guestTerminate", "fault": "compute.instances.hostError",
}

// ending is the one operation of a kind on a machine; f.mu is held.
func (f *Fake) ending(m machine, kind string) *operation {
	for _, o := range f.operations {
		if o.kind == kind && o.target == m.rec.name && o != m.rec.deleted {
			return o
		}
	}
	o := f.operate(kind, m.rec)
	o.begun = m.Ended
	return o
}

var statuses = map[provider.State]string{
	provider.Pending: "STAGING", provider.Running: "RUNNING", provider.Stopping: "STOPPING", provider.Gone: "TERMINATED",
}

// wireOf is a machine on the wire; ok is false if it is there no more.
func (f *Fake) wireOf(m machine) (out instance, zone string, ok bool) {
	zone = m.Pool.Zone
	if m.rec == nil {
		if m.State == provider.Gone {
			return out, zone, false
		}
		out = instance{Name: string(m.ID), MachineType: m.Pool.InstanceType, Labels: map[string]string{}}
		for k, v := range m.Labels {
			out.Labels[events.Token(k)] = events.Token(v)
		}
	} else {
		out, zone = m.rec.wire, m.rec.zone
	}
	if m.State == provider.Gone {
		if !f.stays(m) {
			return out, zone, false
		}
		out.Stopped = stamp(m.Ended)
	}
	f.dress(&out, zone)
	out.Status, out.Created = statuses[m.State], stamp(m.Started)
	return out, zone, true
}

func (f *Fake) dress(i *instance, zone string) {
	link := "https://www.googleapis.com/compute/v1/projects/" + f.cfg.Project + "/zones/" + zone
	i.Kind, i.Zone, i.MachineType = "compute#instance", link, link+"/machineTypes/"+base(i.MachineType)
}

func base(url string) string { return path.Base(url) }

func regionOf(zone string) string {
	if n := strings.LastIndexByte(zone, '-'); n > 0 {
		return zone[:n]
	}
	return zone
}

var labelFilter = regexp.MustCompile(`^labels\.([a-z0-9_-]+)=([a-z0-9_-]+)$`)

func (f *Fake) listInstances(w http.ResponseWriter, r *http.Request) {
	filter := r.URL.Query().Get("filter")
	m := labelFilter.FindStringSubmatch(filter)
	if filter != "" && m == nil {
		refuse(w, 400, "invalid", "Invalid value for field 'filter': '"+filter+"'")
		return
	}
	machines, complete, err := f.machines(r.Context())
	if err != nil {
		fail(w, provider.OpList, "instances", err)
		return
	}
	var rows []row
	f.mu.Lock()
	for _, one := range machines {
		wire, zone, ok := f.wireOf(one)
		if ok && (filter == "" || f.cfg.Unheeded || wire.Labels[m[1]] == m[2]) {
			rows = append(rows, row{zone, wire.Name, wire})
		}
	}
	f.mu.Unlock()
	f.aggregate(w, r, "instances", sorted(rows), complete)
}

// find is one machine by its name. Google's reads of one thing are never late: what
// the seller behind does not list yet is there all the same.
func (f *Fake) find(w http.ResponseWriter, r *http.Request, op string) (m machine, wire instance, ok bool) {
	zone, name := r.PathValue("zone"), r.PathValue("instance")
	machines, _, err := f.machines(r.Context())
	if err != nil {
		fail(w, op, name, err)
		return m, wire, false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, one := range machines {
		if i, in, there := f.wireOf(one); there && in == zone && i.Name == name {
			return one, i, true
		}
		if one.rec != nil && one.rec.zone == zone && one.rec.name == name {
			notFound(w, f.cfg.Project, zone, name)
			return m, wire, false
		}
	}
	rec := f.records[zone+"/"+name]
	if rec == nil || !rec.made {
		notFound(w, f.cfg.Project, zone, name)
		return m, wire, false
	}
	wire = rec.wire
	f.dress(&wire, zone)
	wire.Status, wire.Created = "PROVISIONING", stamp(rec.born)
	return machine{provider.Instance{ID: rec.behind, State: provider.Pending}, rec}, wire, true
}

func notFound(w http.ResponseWriter, project, zone, name string) {
	refuse(w, 404, "notFound", "The resource 'projects/"+project+"/zones/"+zone+"/instances/"+name+"' was not found")
}

func (f *Fake) get(w http.ResponseWriter, r *http.Request) {
	if _, wire, ok := f.find(w, r, provider.OpList); ok {
		reply(w, wire)
	}
}

// delete gives a machine back; one that is stopped goes with its disk.
func (f *Fake) delete(w http.ResponseWriter, r *http.Request) {
	m, wire, ok := f.find(w, r, provider.OpTerminate)
	if !ok {
		return
	}
	if err := f.backend.Terminate(r.Context(), m.ID); err != nil {
		fail(w, provider.OpTerminate, wire.Name, err)
		return
	}
	rec := m.rec
	if rec == nil {
		rec = &record{zone: r.PathValue("zone"), name: wire.Name}
	}
	f.mu.Lock()
	if rec.deleted == nil {
		rec.deleted = f.operate("delete", rec)
	}
	if m.State == provider.Gone {
		rec.buried = f.cfg.Now()
	}
	f.mu.Unlock()
	reply(w, f.shown(rec.deleted))
}
