package noticedrill

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	asTrainer = "DRILL_AS_TRAINER"
	shape     = "DRILL_SHAPE" // seed, bytes, shards, step in microseconds, steps between saves
	logPath   = "DRILL_LOG"
)

// TestMain makes this test's program the trainer, too.
func TestMain(m *testing.M) {
	if os.Getenv(asTrainer) == "" {
		os.Exit(m.Run())
	}
	if err := train(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// model is what a trainer saves.
type model struct {
	seed   uint64
	bytes  int
	shards int
}

func (m model) shard(i int) string {
	return fmt.Sprintf("model-%05d-of-%05d.safetensors", i+1, m.shards)
}

// content is a shard's at a step: bytes that compress to nothing less.
func (m model) content(step int64, i int) io.Reader {
	var seed [32]byte
	for n, v := range []uint64{m.seed, uint64(step), uint64(i)} {
		binary.LittleEndian.PutUint64(seed[8*n:], v)
	}
	size := m.bytes / m.shards / 4 * 4
	header := fmt.Sprintf(`{"w":{"dtype":"F32","shape":[%d],"data_offsets":[0,%d]}}`, size/4, size)
	front := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return io.MultiReader(strings.NewReader(string(front)+header), io.LimitReader(rand.NewChaCha8(seed), int64(size)))
}

func state(step int64) string { return fmt.Sprintf(`{"global_step": %d}`, step) }

// trainer makes steps, saves as Hugging Face's does, and writes down both.
type trainer struct {
	model
	out, progress string
	log           *os.File
	step, saved   int64
	before        int64 // the checkpoint before the newest
}

func train() error {
	runtime.GOMAXPROCS(1)
	var t trainer
	var micros, every int64
	if _, err := fmt.Sscan(os.Getenv(shape), &t.seed, &t.bytes, &t.shards, &micros, &every); err != nil {
		return err
	}
	t.out, t.progress = os.Getenv("SPOTFERRY_CHECKPOINT_DIR"), os.Getenv("SPOTFERRY_PROGRESS_FILE")
	var err error
	if t.log, err = os.OpenFile(os.Getenv(logPath), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644); err != nil {
		return err
	}
	asked := make(chan os.Signal, 4)
	signal.Notify(asked, syscall.SIGUSR1)
	first, parent := 4*every/10, os.Getppid() // so that the first one comes soon
	for range time.Tick(time.Duration(micros) * time.Microsecond) {
		if os.Getppid() != parent {
			return errors.New("the drill is gone")
		}
		t.step++
		err := t.made()
		select {
		case <-asked:
			err = t.save()
		default:
			if t.step == min(first, 10) || t.step > first && t.step%every == 0 {
				err = t.save()
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (t *trainer) note(what string) error {
	_, err := fmt.Fprintf(t.log, "%s %d %d\n", what, t.step, time.Now().UnixNano())
	return err
}

func (t *trainer) made() error {
	if err := t.note("step"); err != nil {
		return err
	}
	return replace(t.progress, fmt.Sprintf(`{"step": %d}`, t.step))
}

func replace(path, text string) error {
	if err := os.WriteFile(path+".new", []byte(text), 0o644); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

func (t *trainer) save() error {
	if t.saved == t.step {
		return nil
	}
	dir := filepath.Join(t.out, fmt.Sprintf("checkpoint-%d", t.step))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for i := range t.shards {
		f, err := os.Create(filepath.Join(dir, t.shard(i)))
		if err != nil {
			return err
		}
		if _, err := io.CopyBuffer(struct{ io.Writer }{f}, t.content(t.step, i), make([]byte, 256<<10)); err != nil {
			return err
		}
		if err := f.Close(); err != nil {
			return err
		}
	}
	if err := replace(filepath.Join(dir, "trainer_state.json"), state(t.step)); err != nil {
		return err
	}
	t.saved = t.step
	return errors.Join(t.note("saved"), t.rotate())
}

// rotate keeps the newest two.
func (t *trainer) rotate() error {
	all, err := filepath.Glob(filepath.Join(t.out, "checkpoint-*"))
	for _, dir := range all {
		n, _ := strconv.ParseInt(strings.TrimPrefix(filepath.Base(dir), "checkpoint-"), 10, 64)
		if n != t.step && n != t.before {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}
	t.before = t.step
	return err
}

// made is a trainer's log.
type made struct {
	step int64
	at   time.Time
	save bool
}

func readLog(path string) (all []made, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var what string
		var step, at int64
		if _, err := fmt.Sscan(lines.Text(), &what, &step, &at); err == nil {
			all = append(all, made{step, time.Unix(0, at), what == "saved"})
		}
	}
	return all, nil
}
