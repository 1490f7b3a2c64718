package local

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/spotferry/spotferry/bidder/trace"
)

// MetadataEndpoint is the variable by which the agent, and the seller's own
// software, finds the metadata service.
const MetadataEndpoint = "AWS_EC2_METADATA_SERVICE_ENDPOINT"

// host is one machine's landlord, alone in its process.
type host struct {
	place
	record
	log    *zap.Logger
	now    func() time.Time
	plan   []action // what is to come, in order
	meta   *Metadata
	agreed chan struct{} // the machine says that it may be taken
	state  hostState
	group  cgroup

	warned  *trace.Reclaim // whose warning stands
	shot    *shot          // once a kill waits for a save
	drilled map[Reclaim]bool
	market  trace.Market // opened when first needed
	metered time.Time
}

// verdict is the end of a machine as decided.
type verdict struct {
	by, detail string
	end        time.Time // market time; zero: when the tree is dead
	row        *killRow  // with a reclaim
}

const (
	lookEvery  = 100 * time.Millisecond // at terminate and the drill
	meterEvery = 2 * time.Second
	lockWait   = 2 * time.Second
)

// RunHost is a machine's landlord from its boot to its end: what the program at
// Config.Exe must call, with the directory it was given, and then exit. It
// returns nil when the machine has ended, however it ended, and at once when
// another host has it. When ctx ends, or on SIGTERM, the machine is given back.
//
// It takes over the process: its signals, its children and its orphans.
func RunHost(ctx context.Context, dir string) error {
	runtime.LockOSThread() // the agent dies with the thread that started it
	defer runtime.UnlockOSThread()
	p := place(dir)
	lock, err := waitLock(p.path(lockFile))
	if err != nil || lock == nil {
		return err
	}
	defer lock.Close()
	r, err := p.record()
	if err != nil {
		return fmt.Errorf("hosting: %w", err)
	}
	h := &host{place: p, record: r, now: time.Now, log: hostLogger(r), drilled: map[Reclaim]bool{}}
	e, over, err := find[ending](p, endFile)
	if err != nil {
		return fmt.Errorf("hosting %s: %w", r.ID, err)
	}
	if !over {
		v, err := h.live(ctx)
		if err == nil {
			e, err = h.clear(v)
		}
		if err != nil {
			return fmt.Errorf("hosting %s: %w", r.ID, err)
		}
	}
	return h.finish(e)
}

// waitLock takes the host's lock. Whoever looks whether there is a host holds it
// for a moment; a real host holds it for good, and then there is nothing to do.
func waitLock(path string) (*os.File, error) {
	for deadline := time.Now().Add(lockWait); ; time.Sleep(10 * time.Millisecond) {
		lock, err := tryLock(path)
		if lock != nil || err != nil || time.Now().After(deadline) {
			return lock, err
		}
	}
}

func hostLogger(r record) *zap.Logger {
	enc := zapcore.NewJSONEncoder(zapcore.EncoderConfig{
		TimeKey: "t", LevelKey: "level", MessageKey: "msg", EncodeTime: zapcore.RFC3339NanoTimeEncoder, EncodeLevel: zapcore.LowercaseLevelEncoder,
		EncodeDuration: zapcore.StringDurationEncoder,
	})
	log := zap.New(zapcore.NewCore(enc, zapcore.Lock(os.Stderr), zap.InfoLevel))
	return log.With(zap.String("instance", string(r.ID)), zap.Stringer("pool", r.Spec.Pool))
}

// live runs the machine until something ends it.
func (h *host) live(ctx context.Context) (verdict, error) {
	before, ran, err := find[hostState](h.place, hostFile)
	if err != nil || ran {
		// A host was here and died. A machine does not come back from that.
		h.group = cgroup(before.Cgroup)
		return verdict{by: endedByFault, detail: hostDied}, err
	}
	sigs := make(chan os.Signal, 16)
	signal.Notify(sigs, syscall.SIGTERM, syscall.SIGINT, syscall.SIGCHLD)
	signal.Ignore(syscall.SIGHUP)
	if err := adoptOrphans(); err != nil {
		return verdict{}, err
	}
	stop, err := h.serve()
	if err != nil {
		return verdict{}, err
	}
	defer stop()
	h.insert(schedule(h.Fate, h.Clock, h.Launched)...)
	h.insert(action{at: h.Launched.Add(h.Clock.ControlFor(h.record.Boot)), do: boot})
	v := h.play(ctx, sigs)
	if v.row == nil && h.warned != nil && h.warned.Kind == trace.Noticed {
		row := h.row(*h.warned, h.now()) // the warning had its effect: somebody left before the deadline
		v.row = &row
	}
	return v, nil
}

// serve opens the metadata endpoint and says who we are.
func (h *host) serve() (stop func(), err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("opening the metadata endpoint: %w", err)
	}
	if h.state.Host, err = identify(os.Getpid()); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	h.state.Port = l.Addr().(*net.TCPAddr).Port
	if err := write(h.path(hostFile), h.state); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	h.agreed = make(chan struct{}, 1)
	h.meta = NewMetadata(MetadataConfig{
		Kind: h.Offer.NoticeKind, ID: h.ID, Pool: h.Spec.Pool, UserData: h.Spec.UserData, Now: h.now,
		Acknowledged: h.agree,
	})
	server := &http.Server{Handler: h.meta, ReadHeaderTimeout: 5 * time.Second, MaxHeaderBytes: 64 << 10}
	go func() { _ = server.Serve(l) }() // ends with Close
	return func() { _ = server.Close() }, nil
}

// play carries out the plan and watches until something ends the machine.
func (h *host) play(ctx context.Context, sigs <-chan os.Signal) verdict {
	looked := time.Time{}
	for {
		now := h.now()
		if v := h.due(now); v != nil {
			return *v
		}
		if now.Sub(looked) >= lookEvery {
			looked = now
			if v := h.look(now); v != nil {
				return *v
			}
		}
		select {
		case s := <-h.struck():
			return *h.hit(s)
		case <-h.agreed:
			h.hasten(h.now())
		case <-ctx.Done():
			return verdict{by: endedByUs, detail: "the host was told to stop"}
		case s := <-sigs:
			if s != syscall.SIGCHLD {
				return verdict{by: endedByUs, detail: "the host got " + s.String()}
			}
			how, gone := reap()[h.state.Agent.PID]
			if gone && h.shot != nil && h.shot.fired.Load() {
				return *h.hit(<-h.shot.struck)
			}
			if gone {
				return verdict{by: endedByMachine, detail: "the agent ended with " + how}
			}
		case <-time.After(h.nap(now)):
		}
	}
}

// nap is how long there is nothing to do.
func (h *host) nap(now time.Time) time.Duration {
	if len(h.plan) > 0 {
		return min(lookEvery, max(h.plan[0].at.Sub(now), 0))
	}
	return lookEvery
}

// struck is where a shot tells that it was fired.
func (h *host) struck() <-chan strike {
	if h.shot == nil {
		return nil
	}
	return h.shot.struck
}

// look sees to what others ask of the host, and to the meter.
func (h *host) look(now time.Time) *verdict {
	if asked, err := exists(h.path(terminateFile)); asked || err != nil {
		return &verdict{by: endedByUs, detail: "terminated"}
	}
	if _, err := os.Lstat(h.path(recordFile)); err != nil {
		return &verdict{by: endedByFault, detail: "the instance's directory is gone"}
	}
	if d, ok, err := find[Drill](h.place, drillFile); ok && err == nil {
		h.drill(d, now)
	}
	if h.shot != nil {
		h.shot.look()
	}
	if now.Sub(h.metered) >= meterEvery {
		h.metered = now
		h.read(now)
	}
	return nil
}

func (h *host) drill(d Drill, now time.Time) {
	for _, r := range d.Reclaim {
		mine := r.Token == h.Token || r.Token == "*" && h.Spec.Pool.Capacity.Reclaimable()
		if !mine || h.drilled[r] {
			continue
		}
		h.drilled[r] = true
		h.log.Info("drill", zap.Any("reclaim", r))
		h.insert(schedule([]trace.Reclaim{forced(r, h.Clock, now)}, h.Clock, now)...)
	}
}

// read writes the meter as it stands. It is for people; the bill is made at the end.
func (h *host) read(now time.Time) {
	m, err := h.open()
	if err != nil {
		return // said when the bill is made
	}
	at := h.Clock.Market(now)
	amount := total(bill(h.stay(m, at, endedByUs)))
	if err := jot(h.path(meterFile), reading{h.ID, amount, at, false}); err != nil {
		h.log.Warn("meter not written", zap.Error(err))
	}
}

func (h *host) open() (trace.Market, error) {
	if h.market == nil {
		m, err := h.Market.Open()
		if err != nil {
			return nil, err
		}
		h.market = m
	}
	return h.market, nil
}
