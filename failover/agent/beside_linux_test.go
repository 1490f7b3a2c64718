package agent

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/spotferry/spotferry/checkpoint"
)

// BenchmarkTrainingBesideShipping trains by turns with and without an upload at
// half the link in the agent's process, and reports medians of what a step costs
// more beside it. The trainer computes and does nothing else, on one thread and on
// as many as there are cores, which is the hard case: whatever an upload computes
// is then taken from training.
//
// The link is what another process takes over the loopback, but no more than a
// gigabit for each two cores, which is what machines have. That process has a low
// priority, as it stands for another machine.
//
// The upload keeps to the agent's own limits: that half, and what the cores allow
// (spare). A trainer on all of them leaves a hundredth, whatever the link could do.
//
//   - %slower is by the clock, and true on a machine that does nothing else;
//
//   - %cpu/step is by the trainer's own processor time, which neighbours move
//     little: what shared caches and memory cost;
//
//   - %agent is what the agent's process takes of all cores while it ships. With a
//     trainer on all of them, no more than this and %cpu/step can be lost.
//
//     go test ./failover/agent -run '^$' -bench BesideShipping -benchtime 10x
func BenchmarkTrainingBesideShipping(b *testing.B) {
	w := newBeside(b)
	for _, nice := range []int{0, 19} {
		for _, threads := range slices.Compact([]int{1, cores()}) {
			b.Run(fmt.Sprintf("threads=%d/nice=%d", threads, nice), func(b *testing.B) { w.measure(b, threads, nice) })
		}
	}
}

// beside is what the cases have in common.
type beside struct {
	store sink
	tree  string
	size  int64
	half  int64 // of the link, bytes a second
	spare spare
	n     int
}

// cores is how many threads can run at once.
func cores() int {
	var set unix.CPUSet
	if unix.SchedGetaffinity(0, &set) != nil {
		return 1
	}
	return set.Count()
}

func newBeside(b *testing.B) *beside {
	cmd := exec.Command(os.Args[0], "sink")
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	w := &beside{tree: filepath.Join(b.TempDir(), "checkpoint-1"), size: 128 << 20}
	if _, err := fmt.Fscan(out, &w.store.addr); err != nil {
		b.Fatal(err)
	}
	if err := os.Mkdir(w.tree, 0o755); err != nil {
		b.Fatal(err)
	}
	data := make([]byte, w.size)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(data) // it never fails
	if err := os.WriteFile(filepath.Join(w.tree, "model.safetensors"), data, 0o644); err != nil {
		b.Fatal(err)
	}
	link := float64(w.size) / min(w.upload(b, 0), w.upload(b, 0)).Seconds()
	w.half = int64(min(link, float64(cores())*62.5e6) / 2)
	return w
}

// upload sends everything, as another job's, and returns how long it took. With
// a rate it keeps, as the agent does, also to what the cores allow.
func (w *beside) upload(b *testing.B, rate int64) time.Duration {
	w.n++
	e, err := checkpoint.New(checkpoint.Config{Store: w.store, Tenant: "acme", Job: fmt.Sprintf("job%d", w.n), Rate: w.spare.within(rate, 0)})
	if err != nil {
		b.Fatal(err)
	}
	began, ended := time.Now(), make(chan struct{})
	var looking sync.WaitGroup
	if rate > 0 {
		looking.Go(func() { w.look(e, rate, ended) })
	}
	if _, err := e.Upload(b.Context(), checkpoint.SaveRequest{Dir: w.tree, Epoch: 1, Step: 1}); err != nil {
		b.Fatal(err)
	}
	close(ended)
	looking.Wait()
	return time.Since(began)
}

// look keeps an upload to what the cores allow until it has ended.
func (w *beside) look(e *checkpoint.Engine, rate int64, ended chan struct{}) {
	tick := time.NewTicker(lookAtLoad)
	defer tick.Stop()
	w.spare.at = 0 // what happened between two uploads is not of this one
	for now := w.spare.within(rate, 0); ; {
		if l, ok := ReadLoad(); ok {
			w.spare.look(time.Duration(time.Now().UnixNano()), l, e.Progress().Sent)
		}
		if next := w.spare.within(rate, now); next != now {
			now = next
			e.SetRate(now)
		}
		select {
		case <-tick.C:
		case <-ended:
			return
		}
	}
}

// window is what happened in one.
type window struct{ perStep, cpuPerStep, agent float64 } // seconds, seconds, cores

func (w *beside) measure(b *testing.B, threads, nice int) {
	t := grind(b, threads)
	w.spare = spare{}
	w.upload(b, w.half) // finds out what the cores allow
	renice(b, nice)
	defer renice(b, 0)
	look := func(do func()) window {
		steps, cpu, own, began := t.steps(), t.cpu(), cpuTime(ownClock), time.Now()
		do()
		took, n := time.Since(began).Seconds(), float64(t.steps()-steps)
		return window{took / n, (t.cpu() - cpu).Seconds() / n, (cpuTime(ownClock) - own).Seconds() / took}
	}
	var slower, dearer, taken, sent []float64
	alone := time.Second / 2
	b.ResetTimer()
	for i := range b.N {
		var with, without window
		for _, ship := range []bool{i%2 == 0, i%2 != 0} {
			if ship {
				with = look(func() { alone = w.upload(b, w.half) })
				sent = append(sent, float64(w.size)/alone.Seconds()/1e6)
			} else {
				without = look(func() { time.Sleep(alone) })
			}
		}
		slower = append(slower, 100*(with.perStep/without.perStep-1))
		dearer = append(dearer, 100*(with.cpuPerStep/without.cpuPerStep-1))
		taken = append(taken, 100*(with.agent-without.agent)/float64(cores()))
	}
	for name, all := range map[string][]float64{"%slower": slower, "%cpu/step": dearer, "%agent": taken, "MB/s": sent} {
		slices.Sort(all)
		b.ReportMetric(all[len(all)/2], name)
	}
	b.ReportMetric(float64(w.half)/1e6, "half-MB/s")
}

// renice gives every thread of this process a priority; threads to come inherit it.
func renice(b *testing.B, nice int) {
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		b.Fatal(err)
	}
	for _, t := range tasks {
		id, _ := strconv.Atoi(t.Name())
		if err := unix.Setpriority(unix.PRIO_PROCESS, id, nice); err != nil && nice == 0 {
			b.Skipf("the priority cannot be put back: %v", err)
		}
	}
}

// ground is a trainer that is watched.
type ground struct {
	counters []uint64
	threads  int
	pid      int
}

func (g ground) steps() (n uint64) {
	for i := range g.threads {
		n += atomic.LoadUint64(&g.counters[8*i])
	}
	return n
}

func (g ground) cpu() time.Duration { return cpuTime(int32(^g.pid)<<3 | 2) } // the clock of another process

const ownClock = unix.CLOCK_PROCESS_CPUTIME_ID

func cpuTime(clock int32) time.Duration {
	var t unix.Timespec
	if unix.ClockGettime(clock, &t) != nil {
		return 0
	}
	return time.Duration(t.Nano())
}

// grind starts a trainer.
func grind(b *testing.B, threads int) ground {
	path := filepath.Join(b.TempDir(), "steps")
	if err := os.WriteFile(path, make([]byte, 4096), 0o600); err != nil {
		b.Fatal(err)
	}
	counters, err := counters(path)
	if err != nil {
		b.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], "grinding", path, strconv.Itoa(threads))
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	g := ground{counters, threads, cmd.Process.Pid}
	for g.steps() < 100 {
		time.Sleep(10 * time.Millisecond)
	}
	return g
}

// counters maps a file of counters, of which every eighth is used: a line of the cache each.
func counters(path string) ([]uint64, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	mem, err := unix.Mmap(int(f.Fd()), 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	return unsafe.Slice((*uint64)(unsafe.Pointer(&mem[0])), 512), nil
}

// grinding is that trainer.
func grinding(path, threads string) {
	count, err := counters(path)
	n, _ := strconv.Atoi(threads)
	if err != nil || n < 1 || n > 64 {
		os.Exit(1)
	}
	parent := os.Getppid()
	for i := range n {
		go func() {
			x := make([]float32, 64<<10)
			for s := uint64(1); ; s++ {
				for j := range x {
					x[j] = x[j]*0.999 + float32(j&7)
				}
				atomic.StoreUint64(&count[8*i], s)
				if s%1000 == 0 && os.Getppid() != parent {
					os.Exit(1)
				}
			}
		}()
	}
	select {}
}

// sink is a store that another process takes everything for and keeps nothing of.
type sink struct{ addr string }

func (s sink) Put(ctx context.Context, _ string, r io.Reader, size int64) error {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", s.addr)
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := c.Write(binary.BigEndian.AppendUint64(nil, uint64(size))); err != nil {
		return err
	}
	if _, err := io.Copy(struct{ io.Writer }{c}, r); err != nil {
		return err
	}
	_, err = io.ReadFull(c, make([]byte, 1))
	return err
}

func (sink) Get(context.Context, string) (io.ReadCloser, error) { return nil, checkpoint.ErrNotFound }
func (sink) Range(context.Context, string, int64, int64) (io.ReadCloser, error) {
	return nil, checkpoint.ErrNotFound
}
func (sink) Stat(context.Context, string) (int64, error)               { return 0, checkpoint.ErrNotFound }
func (sink) List(context.Context, string) ([]checkpoint.Object, error) { return nil, nil }
func (sink) Delete(context.Context, string) error                      { return nil }

// sinking is that process. It ends with the one that started it.
func sinking() {
	_ = unix.Setpriority(unix.PRIO_PROCESS, 0, 10) // the thread that begets the others
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		os.Exit(1)
	}
	fmt.Println(l.Addr())
	go func() {
		for parent := os.Getppid(); os.Getppid() == parent; {
			time.Sleep(time.Second)
		}
		os.Exit(0)
	}()
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			size := make([]byte, 8)
			if _, err := io.ReadFull(c, size); err == nil {
				_, _ = io.CopyN(io.Discard, c, int64(binary.BigEndian.Uint64(size)))
				_, _ = c.Write([]byte{1})
			}
		}()
	}
}
