package simtest

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/events/natsbus"
	"github.com/spotferry/spotferry/services/internal/plane"
)

// life is the control plane from one start to its end.
type life struct {
	w      *world
	n      int
	k      int // which replica
	ctx    context.Context
	cancel context.CancelFunc
	link   *link
	conns  []*nats.Conn
	ended  chan error // from plane.Run

	mu     sync.Mutex
	dead   bool
	count  map[string]int // commands seen, by what they are about
	latest time.Time      // of the newest append
}

// planes keeps a replica of the control plane running until stop: whenever one
// dies, another starts from what is on the disk.
func (w *world) planes(k int, stop <-chan struct{}) {
	for n := 1; ; n++ {
		l := w.newLife(k, n)
		from := time.Now()
		if !w.start(l, stop) {
			l.close()
			return
		}
		l.outage(from)
		w.trace("control plane %s runs", l)
		select {
		case <-l.ctx.Done():
			<-l.ended
		case err := <-l.ended:
			if !l.isDead() {
				w.fail("the control plane ended by itself: %v", err)
			}
		case <-stop:
			turn(l.actor("plane-stop"))
			l.cancel()
			if err := <-l.ended; err != nil {
				w.fail("the control plane did not stop in order: %v", err)
			}
			l.close()
			return
		}
		from = time.Now()
		l.close()
		w.trace("control plane %s is gone", l)
		sleep(w.ctx, w.chance.between(time.Second, 90*time.Second, "restart", n, k))
		turn(l.actor("plane-restart"))
		l.outage(from)
	}
}

// String numbers a life, and names its replica if there are several.
func (l *life) String() string {
	if l.w.opt.replicas < 2 {
		return fmt.Sprint(l.n)
	}
	return fmt.Sprintf("%d of replica %d", l.n, l.k)
}

// actor is a part of this replica, which has an instant of its own.
func (l *life) actor(part string) string {
	if l.k == 0 {
		return part
	}
	return fmt.Sprintf("%s-%d", part, l.k)
}

func (l *life) turn(part string) { turn(l.actor(part)) }

// jitter keeps apart what would come back to the bus at the same instant.
func (l *life) jitter(part string) func(time.Duration) time.Duration {
	own := time.Duration(1 + chance(0).draw(l.actor(part))%uint64(time.Millisecond))
	return func(most time.Duration) time.Duration { return min(own, most-1) }
}

// outage notes that nobody was there: requests go to the first replica alone.
func (l *life) outage(from time.Time) {
	if l.k == 0 {
		l.w.outage(from)
	}
}

func (w *world) newLife(k, n int) *life {
	l := &life{w: w, k: k, n: n, link: newLink(w.current), ended: make(chan error, 1), count: map[string]int{}}
	l.ctx, l.cancel = context.WithCancel(w.ctx)
	l.link.wire = &wire{judge: l.judge, die: l.die}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lives[k] = l
	return l
}

// start tries until the control plane runs; false: it was told to stop before.
func (w *world) start(l *life, stop <-chan struct{}) bool {
	for {
		l.turn("plane-start")
		err := l.open()
		if err == nil {
			return true
		}
		l.close()
		if l.isDead() || l.ctx.Err() != nil {
			l.ended <- err
			return true
		}
		if errors.Is(err, events.ErrRegressed) {
			w.fail("a stream has regressed: %v", err)
			return false
		}
		w.trace("control plane %s does not start: %v", l, err)
		select {
		case <-stop:
			return false
		case <-time.After(2 * time.Second):
		}
	}
}

func (l *life) connect(name string, mint func(string) (natsbus.Credentials, error)) (*nats.Conn, error) {
	creds, err := mint(name)
	if err != nil {
		return nil, err
	}
	nc, err := natsbus.Connect(natsbus.ConnConfig{Server: l.link, Credentials: creds, Name: name, Log: l.w.log.Named("bus"), Jitter: l.jitter(name)})
	if err == nil {
		l.conns = append(l.conns, nc)
	}
	return nc, err
}

// open does what the one-machine system does at its start, without its files and seller.
func (l *life) open() error {
	w := l.w
	op, err := natsbus.OpenOperator(natsbus.OperatorConfig{Dir: w.path("operator"), Entropy: w.chance.entropy("operator", l.n, l.k), Now: time.Now})
	if err != nil {
		return err
	}
	nc, err := l.connect("services", op.Service)
	if err != nil {
		return err
	}
	pusher, err := l.connect("gateway-accounts", op.System)
	if err != nil {
		return err
	}
	log, err := natsbus.New(nc, natsbus.Options{Log: w.log.Named("log"), Wrap: l.wrap, Jitter: l.jitter("log")})
	if err != nil {
		return err
	}
	marks, err := natsbus.OpenHighWater(natsbus.HighWaterConfig{
		Conn: nc, JS: log.JetStream(), File: filepath.Join(w.dir, l.actor("highwater")+".json"), Every: time.Minute, Log: w.log,
	})
	if err != nil {
		return err
	}
	if err := marks.Check(l.ctx); err != nil {
		return err
	}
	if err := natsbus.Declare(l.ctx, log.JetStream(), 1); err != nil {
		return err
	}
	seller, err := l.road(nc)
	if err != nil {
		return err
	}
	p, err := plane.New(plane.Config{
		Conn: nc, Log: log, Operator: op, Accounts: natsbus.NewAccounts(op, pusher), Store: w.store, Grant: events.StoreGrant{Kind: "sim"},
		Sellers: map[string]provider.Provider{sellerName: seller},
		Clock:   w.clock, Timers: w.timers, Poll: 15 * time.Second, URL: "nats://bus.invalid:4222", Org: org, Mark: "sim", Now: time.Now, Version: "sim",
		Logger: w.log, Crash: l.point, Turn: l.turn, Parallel: 1, Collection: collection,
	})
	if err != nil {
		return err
	}
	marking := make(chan error, 1)
	go func() {
		err := marks.Run(l.ctx)
		if err != nil {
			l.cancel()
		}
		marking <- err
	}()
	go func() {
		err := p.Run(l.ctx)
		l.ended <- errors.Join(err, <-marking)
	}()
	return nil
}

func (l *life) close() {
	for _, c := range l.conns {
		c.Close()
	}
	l.conns = nil
}

func (l *life) isDead() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dead
}

// die ends the control plane as a kill would: from here on nothing of it reaches
// the bus, and what it still does by itself ends with its context.
func (l *life) die() {
	l.mu.Lock()
	already := l.dead
	l.dead = true
	l.mu.Unlock()
	if !already {
		l.link.cut(true)
		l.cancel()
	}
}

// wrap has every consumer handle at an instant of its own. A consumer without a
// name is known by who asked for it.
func (l *life) wrap(s events.Subscription, h natsbus.Handler) natsbus.Handler {
	actor := "consumer-" + s.Name
	if s.Name == "" {
		actor += caller()
	}
	return func(ctx context.Context, e events.Event) error {
		l.turn(actor)
		if s.Name == "" {
			return h(ctx, e)
		}
		row, _ := events.TypeOf(e.Fact)
		what := fmt.Sprintf("%s on %s.%s", s.Name, row.Family, row.Event)
		l.point("before " + what)
		err := h(ctx, e)
		l.point("after " + what)
		return err
	}
}

// caller is the function outside the bus's package that called Consume.
func caller() string {
	pc := make([]uintptr, 16)
	frames := runtime.CallersFrames(pc[:runtime.Callers(2, pc)])
	for {
		f, more := frames.Next()
		if !strings.Contains(f.Function, "/natsbus.") && !strings.Contains(f.Function, "/simtest.") {
			return f.Function
		}
		if !more {
			return ""
		}
	}
}

// point is called where a control plane may die. It dies there if that is the
// place drawn for it.
func (l *life) point(name string) {
	l.mu.Lock()
	over := l.dead
	l.mu.Unlock()
	if over || !l.w.due(name) {
		return
	}
	l.w.hits.add("crash: " + name)
	l.w.trace("control plane %s dies at %q", l, name)
	l.die()
}

// judge draws what becomes of a command on its way to the bus.
func (l *life) judge(c command) verdict {
	l.mu.Lock()
	over := l.dead
	l.count[c.subject]++
	n := l.count[c.subject]
	event, truth := strings.CutPrefix(c.subject, "sf.v1.")
	alone := !l.latest.Equal(time.Now()) // nothing else is on its way at this moment
	if truth {
		l.latest = time.Now()
	}
	l.mu.Unlock()
	w := l.w
	if over {
		return lose
	}
	if c.verb == "SUB" {
		// The bus picks one of a queue group at random. So that a seed gives one
		// history, only the first replica answers requests.
		if l.k > 0 {
			return lose
		}
		return pass
	}
	if truth && c.verb == "HPUB" {
		f := strings.Split(event, ".")
		name := f[0] + "." + f[len(f)-1]
		if w.due("before append of " + name) {
			w.hits.add("crash: before append of " + name)
			w.trace("control plane %s dies before it appends %s", l, c.subject)
			return dead
		}
		if w.due("after append of " + name) {
			w.hits.add("crash: after append of " + name)
			w.trace("control plane %s dies after it appended %s", l, c.subject)
			return kill
		}
	}
	if !w.chaotic() {
		return pass
	}
	t := w.opt.trouble
	about := []any{"wire", l.n, l.actor(c.subject), n}
	switch {
	case strings.HasPrefix(c.subject, "$JS.ACK."):
		if w.chance.hits(t.ack, about...) {
			w.hits.add("bus: acknowledgement lost")
			return lose
		}
	case truth && (f0(event) == "job" || f0(event) == "lease" || f0(event) == "money"):
		if !w.chance.hits(t.append, about...) {
			break
		}
		v := []verdict{lose, repeat, sever}[w.chance.below(3, append(about, "how")...)]
		if v == sever && !alone {
			v = lose
		}
		w.hits.add("bus: append " + map[verdict]string{lose: "lost", repeat: "repeated", sever: "unanswered, connection broken"}[v])
		return v
	}
	return pass
}

func f0(s string) string { first, _, _ := strings.Cut(s, "."); return first }
