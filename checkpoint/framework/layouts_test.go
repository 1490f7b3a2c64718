package framework_test

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spotferry/spotferry/checkpoint/framework"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// safetensors returns a file of two tensors with size bytes of data together.
func safetensors(size int) string {
	header := fmt.Sprintf(`{"__metadata__":{"format":"pt"},"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[%d],"data_offsets":[2,%d]}}`, size-2, size)
	return string(binary.LittleEndian.AppendUint64(nil, uint64(len(header)))) + header + strings.Repeat("w", size)
}

// archive returns a file as torch.save writes it, as far as we look at it.
func archive(t testing.TB) string { return archiveOf(t, "\x80\x02.") }

func archiveOf(t testing.TB, pickle string) string {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	f, err := w.CreateHeader(&zip.FileHeader{Name: "archive/data.pkl", Method: zip.Store})
	must(t, err)
	_, err = f.Write([]byte(pickle))
	must(t, err)
	must(t, w.Close())
	return b.String()
}

// hfTree is a complete checkpoint by Trainer on two ranks.
func hfTree(t testing.TB, step int) map[string]string {
	dir := fmt.Sprintf("checkpoint-%d/", step)
	return map[string]string{
		dir + "model-00001-of-00002.safetensors": safetensors(100),
		dir + "model-00002-of-00002.safetensors": safetensors(60),
		dir + "model.safetensors.index.json":     `{"metadata":{},"weight_map":{"a":"model-00001-of-00002.safetensors","b":"model-00002-of-00002.safetensors"}}`,
		dir + "config.json":                      `{}`,
		dir + "optimizer.pt":                     archive(t),
		dir + "scheduler.pt":                     "\x80\x02legacy pickle",
		dir + "rng_state_0.pth":                  archive(t),
		dir + "rng_state_1.pth":                  archive(t),
		dir + "training_args.bin":                archive(t),
		dir + "tokenizer.bin":                    "a format of its own",
		dir + "trainer_state.json":               fmt.Sprintf(`{"epoch":0.5,"global_step":%d,"log_history":[]}`, step),
	}
}

// job is a job's directory with a clock.
type job struct {
	t    testing.TB
	dir  string
	root *os.Root
	now  time.Time
}

func newJob(t testing.TB, files ...map[string]string) *job {
	t.Helper()
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	must(t, err)
	t.Cleanup(func() { _ = root.Close() })
	j := &job{t: t, dir: dir, root: root, now: time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)}
	for _, fs := range files {
		for name, content := range fs {
			j.write(name, content)
		}
	}
	return j
}

func (j *job) write(name, content string) {
	j.t.Helper()
	p := filepath.Join(j.dir, name)
	must(j.t, os.MkdirAll(filepath.Dir(p), 0o755))
	must(j.t, os.WriteFile(p, []byte(content), 0o644))
}

func (j *job) adapter(name string, cfg framework.Config) framework.Adapter {
	j.t.Helper()
	cfg.Now = func() time.Time { return j.now }
	a, err := framework.New(name, cfg)
	must(j.t, err)
	return a
}

func (j *job) candidates(a framework.Adapter) []framework.Candidate {
	j.t.Helper()
	cs, err := a.Candidates(j.root)
	must(j.t, err)
	return cs
}

// settle looks until nothing changes any more and returns the verdict.
func (j *job) settle(a framework.Adapter, c framework.Candidate) (bool, string) {
	j.t.Helper()
	_, _, err := a.Complete(j.root, c)
	must(j.t, err)
	j.now = j.now.Add(time.Hour)
	ok, why, err := a.Complete(j.root, c)
	must(j.t, err)
	return ok, why
}
