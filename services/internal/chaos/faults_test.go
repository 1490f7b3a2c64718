package chaos

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sys/unix"

	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/events/natsbus"
	"github.com/spotferry/spotferry/failover"
	"github.com/spotferry/spotferry/services/internal/fleet"
)

// fault is a trouble that is no kill. It returns when it is over.
type fault struct {
	name string
	do   func()
}

// troubles are all of them, in an order of the seed's.
func (w *world) troubles() []fault {
	all := []fault{
		{"an agent stands still for longer than its hold", w.stopAgent},
		{"nonsense on every subject", w.litter},
		{"another agent stands still", w.stopAgent},
		{"every gateway is away for longer than an agent may be silent", func() { w.away("gateway") }},
		{"the bus is away for longer than an agent may be silent", func() { w.away("bus") }},
		{"failover is away for longer than an agent may be silent", func() { w.away("failover") }},
	}
	for _, name := range []string{"seller", "bus", "store"} {
		if disk, ok := w.disks[name]; ok {
			all = append(all, fault{"the disk under the " + name + " is full", func() { w.fillDisk(name, disk) }})
		}
	}
	w.rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

// away keeps all replicas of a program down for twice the time after which an
// agent that is not heard counts as lost. It is not the agents who are silent.
func (w *world) away(name string) {
	down := 2 * w.fleet.Installation().Timers().Lost
	for _, p := range w.fleet.Programs() {
		if p.Name != name {
			continue
		}
		w.until(20*time.Second, p.Running)
		w.kill(p, down)
	}
	w.pause(down)
	before := w.commits()
	if !w.until(30*time.Second, func() bool { return w.commits() > before }) {
		w.fail("30 s after %s was away, nothing has been committed", name)
	}
}

// stopAgent holds an agent still until its job has gone elsewhere or twice its hold
// is over, then lets it go on: what it was about to commit must be refused, and its
// tree must be dead within the fence.
func (w *world) stopAgent() {
	timers := w.fleet.Installation().Timers()
	var m fleet.Machine
	var j failover.Job
	if !w.until(20*time.Second, func() bool { return w.trainingMachine(&m, &j) }) {
		w.fail("no agent was found to be held still")
		return
	}
	b := w.log.begin([]failover.Job{j})
	b.Target, b.PID, b.Start, b.How, b.Lease = "agent", m.Agent.PID, m.Agent.Start, stopped, m.Lease
	if m.Agent.Signal(syscall.SIGSTOP) != nil {
		return
	}
	moved := func() bool {
		now, _ := w.jobOf(m.Lease)
		return now.Over() || now.Epoch > j.Epoch
	}
	w.until(25*timers.Hold, moved) // the market may have nothing for a while
	w.pause(2 * timers.Hold)
	left := false
	if m.Agent.Alive() {
		_ = m.Agent.Signal(syscall.SIGCONT)
		left = true
	}
	b.Until = time.Now().UTC()
	w.log.end(b)
	if !moved() {
		w.fail("agent %d of %s was still for %s and its job did not move", m.Agent.PID, m.Lease, b.Until.Sub(b.Time).Round(time.Millisecond))
		return
	}
	tree := append(m.Trainers, m.Agent)
	dead := func() bool {
		for _, p := range tree {
			if p.Alive() {
				return false
			}
		}
		return true
	}
	if !w.until(timers.Fence+15*time.Second, dead) {
		w.fail("agent %d of %s was still for %s, its job moved, and its tree is alive", m.Agent.PID, m.Lease, b.Until.Sub(b.Time).Round(time.Millisecond))
	}
	w.note("agent %d of %s was still from %s until its job was elsewhere; it went on: %v", m.Agent.PID, m.Lease, j.Status(), left)
}

// trainingMachine finds a machine whose job trains undisturbed and has committed something.
func (w *world) trainingMachine(m *fleet.Machine, j *failover.Job) bool {
	machines, err := w.fleet.Machines()
	if err != nil {
		return false
	}
	for _, x := range machines {
		y, ok := w.jobOf(x.Lease)
		if ok && kindOf(y) == "hunted" && y.Phase == failover.Running && y.Current != nil && string(y.Current.Lease) == x.Lease && len(y.Commits) > 0 && len(x.Trainers) > 0 {
			*m, *j = x, y
			return true
		}
	}
	return false
}

// fillDisk leaves no room on a small disk for some seconds.
func (w *world) fillDisk(name, disk string) {
	b := w.log.begin(w.rec.open())
	b.Target, b.How = name, full
	const long = 5 * time.Second
	w.mu.Lock()
	w.room = time.Now().Add(2 * long)
	w.mu.Unlock()
	ballast := filepath.Join(disk, "ballast")
	if err := fill(ballast); err != nil {
		w.fail("filling the disk under the %s: %v", name, err)
	}
	w.pause(long)
	if err := os.Remove(ballast); err != nil {
		w.fail("%v", err)
	}
	b.Until = time.Now().UTC()
	w.log.end(b)
	before := w.commits()
	if !w.until(40*time.Second, func() bool { return w.commits() > before }) {
		w.fail("40 s after there was room again on the disk under the %s, nothing has been committed", name)
	}
}

func (w *world) commits() int { return len(ofType[events.JobCommitted](w.rec)) }

// fill writes a file until there is no room for more.
func fill(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	for block := make([]byte, 64<<10); ; {
		if _, err := f.Write(block); err != nil {
			if len(block) > 512 {
				block = block[:len(block)/2]
				continue
			}
			if err := err.(*os.PathError); err.Err == unix.ENOSPC {
				return nil
			}
			return err
		}
	}
}

// litter writes nonsense with every credential there is, wherever each may write,
// and with one that may write everywhere.
func (w *world) litter() {
	i := w.fleet.Installation()
	bus := w.fleet.Program("bus", 0)
	w.until(20*time.Second, func() bool { return bus.Running() && w.rec.nc.IsConnected() })
	random := rand.New(rand.NewPCG(w.opt.seed, 2))
	files, _ := filepath.Glob(filepath.Join(i.Dir(), "*", "*.creds"))
	sent := 0
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			continue
		}
		creds, err := natsbus.ParseCredentials(string(text))
		if err != nil {
			w.fail("%s: %v", f, err)
			continue
		}
		nc, err := natsbus.Connect(i.Reach(natsbus.ConnConfig{Credentials: creds, Name: "vandal"}))
		if err != nil {
			continue // the bus is away
		}
		sent += w.scatter(nc, random)
		nc.Close()
	}
	if log, err := w.connect("vandal"); err == nil {
		sent += w.scatter(log.JetStream().Conn(), random)
	}
	if sent == 0 {
		w.fail("no nonsense could be written")
	}
	w.note("%d messages of nonsense with %d credentials and with one that may do everything", sent, len(files))
}

func (w *world) scatter(nc *nats.Conn, r *rand.Rand) (sent int) {
	job := "nobody"
	if open := w.rec.open(); len(open) > 0 {
		job = string(open[0].ID)
	}
	for _, subject := range []string{
		"sf.v1.job.local." + job + ".committed", "sf.v1.job.local." + job + ".placed", "sf.v1.job.local.nobody.submitted", "sf.v1.job.x",
		"sf.v1.lease.local." + job + "-1-1.ended", "sf.v1.lease.local.x-1-1.launched", "sf.v1.money.local.settled", "sf.v1.money.nobody.reserved",
		"sf.v1.offer.local.us-east.x", "sf.v1.quarantine.local.us-east.x", "sf.v1.hist.x",
		"sf.v1.log.local." + job + ".1", "sf.v1.signal.local." + job + ".1", "sf.v1.signal.local." + job + ".zwei", "sf.v1.dlq.x",
		"agent." + job + ".1.renew", "agent." + job + ".1.commit", "agent." + job + ".1.done", "agent." + job + ".99.join", "agent.x.y.z",
		"down." + job + ".1", "sf.api.admin.root.job", "sf.api.admin.root.submit", "sf.api.viewer.x.cancel", "sf.api.x.bill",
	} {
		for range 4 {
			m := nats.NewMsg(subject)
			m.Data, m.Header = nonsense(r), headers(r)
			if strings.HasPrefix(subject, "agent.") {
				m.Reply = nats.NewInbox()
			}
			if nc.PublishMsg(m) == nil {
				sent++
			}
		}
	}
	_ = nc.FlushTimeout(5 * time.Second) // what may not be written is refused there
	return sent
}

// nonsense is bytes, text, or JSON of the wrong shape.
func nonsense(r *rand.Rand) []byte {
	b := make([]byte, r.IntN(4000))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return [][]byte{
		b, nil, []byte("null"), []byte("{}"), []byte(`{"epoch":-1,"step":1e300,"lease":[],"job":{"id":"\u0000"}}`), []byte(strings.Repeat("[", 5000)),
	}[r.IntN(6)]
}

// headers are none, strange ones, or such as events have, with nonsense in them.
func headers(r *rand.Rand) nats.Header {
	h := nats.Header{}
	switch r.IntN(4) {
	case 0:
		h.Set("ce-type", "job.committed")
		h.Set("ce-id", "not an id")
		h.Set("ce-time", "yesterday")
	case 1:
		h.Set("ce-type", "com.example.unheard-of")
		h.Set("ce-specversion", "9")
	case 2:
		h.Set("Nats-Msg-Id", fmt.Sprint(r.Uint64()))
		h.Set("X-Odd", strings.Repeat("z", 500))
	}
	return h
}

// note tells what happens, for whoever watches.
func (w *world) note(format string, args ...any) {
	fmt.Fprintf(w.out(), "%7.2fs  %s\n", time.Since(w.began).Seconds(), fmt.Sprintf(format, args...))
}

func (w *world) out() io.Writer {
	if *asJSON {
		return os.Stderr
	}
	return os.Stdout
}
