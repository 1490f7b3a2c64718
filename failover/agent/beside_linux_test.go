package agent

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/spotferry/spotferry/checkpoint"
	"github.com/spotferry/spotferry/checkpoint/store/s3"
	"github.com/spotferry/spotferry/checkpoint/storetest/s3server"
)

// BenchmarkTrainingBesideShipping trains in windows of about a second, by turns
// with and without an upload at half the link in the agent's process, and reports
// the median of how much longer a step takes beside it. The trainer computes and
// does nothing else, on one thread and on as many as there are cores, which is the
// hard case: whatever an upload computes is taken from training.
//
// The service that takes the bytes stands for another machine: it runs when
// nobody else wants the processor. The link is what it takes, but no more than
// a gigabit for each two cores, which is what machines have.
//
//	go test ./failover/agent -run '^$' -bench BesideShipping -benchtime 40x
func BenchmarkTrainingBesideShipping(b *testing.B) {
	if _, err := exec.LookPath("chrt"); err != nil {
		b.Skip("chrt is missing: apt-get install util-linux")
	}
	w := newBeside(b)
	for _, nice := range []int{0, 19} {
		for _, threads := range slices.Compact([]int{1, cores()}) {
			b.Run(fmt.Sprintf("threads=%d/nice=%d", threads, nice), func(b *testing.B) { w.measure(b, threads, nice) })
		}
	}
}

// beside is what the cases have in common.
type beside struct {
	store *s3.Store
	tree  string
	size  int64
	half  int64 // of the link, bytes a second
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
	dir := "/dev/shm"
	if _, err := os.Stat(dir); err != nil {
		dir = b.TempDir()
	}
	dir, err := os.MkdirTemp(dir, "beside")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { os.RemoveAll(dir) })
	server := s3server.StartIn(b, dir, "chrt", "-i", "0")
	w := &beside{tree: filepath.Join(b.TempDir(), "checkpoint-1"), size: 64 << 20}
	w.store, err = s3.Open(s3.Config{Bucket: server.Bucket(b), Endpoint: server.URL, Access: server.Access, Secret: server.Secret})
	if err != nil {
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

// upload sends everything, as another job's, and returns how long it took.
func (w *beside) upload(b *testing.B, rate int64) time.Duration {
	w.n++
	e, err := checkpoint.New(checkpoint.Config{Store: w.store, Tenant: "acme", Job: fmt.Sprintf("job%d", w.n), Rate: rate})
	if err != nil {
		b.Fatal(err)
	}
	began := time.Now()
	if _, err := e.Upload(b.Context(), checkpoint.SaveRequest{Dir: w.tree, Epoch: 1, Step: 1}); err != nil {
		b.Fatal(err)
	}
	took := time.Since(began)
	all, err := w.store.List(b.Context(), "")
	for _, o := range all { // the memory is needed
		if err == nil {
			err = w.store.Delete(b.Context(), o.Name)
		}
	}
	if err != nil {
		b.Fatal(err)
	}
	return took
}

func (w *beside) measure(b *testing.B, threads, nice int) {
	steps := grind(b, threads)
	renice(b, nice)
	defer renice(b, 0)
	rate := func(window func()) float64 {
		was, began := steps(), time.Now()
		window()
		return float64(steps()-was) / time.Since(began).Seconds()
	}
	var slower, sent []float64
	alone := time.Second
	b.ResetTimer()
	for i := range b.N {
		with := func() float64 {
			return rate(func() {
				alone = w.upload(b, w.half)
				sent = append(sent, float64(w.size)/alone.Seconds()/1e6)
			})
		}
		without := func() float64 { return rate(func() { time.Sleep(alone) }) }
		var x, y float64
		if i%2 == 0 {
			x, y = with(), without()
		} else {
			y, x = without(), with()
		}
		slower = append(slower, 100*(y/x-1))
	}
	slices.Sort(slower)
	slices.Sort(sent)
	b.ReportMetric(slower[len(slower)/2], "%slower")
	b.ReportMetric(slower[len(slower)/4], "%slower-p25")
	b.ReportMetric(slower[len(slower)*3/4], "%slower-p75")
	b.ReportMetric(sent[len(sent)/2], "MB/s")
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

// grind starts a trainer and returns how many steps it has made.
func grind(b *testing.B, threads int) func() uint64 {
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
	total := func() (n uint64) {
		for i := range threads {
			n += atomic.LoadUint64(&counters[8*i])
		}
		return n
	}
	for total() < 100 {
		time.Sleep(10 * time.Millisecond)
	}
	return total
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
	for i := range n {
		go func() {
			x := make([]float32, 64<<10)
			for s := uint64(1); ; s++ {
				for j := range x {
					x[j] = x[j]*0.999 + float32(j&7)
				}
				atomic.StoreUint64(&count[8*i], s)
			}
		}()
	}
	select {}
}
