package checkpoint_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spotferry/spotferry/checkpoint"
	"github.com/spotferry/spotferry/checkpoint/store/dir"
	"github.com/spotferry/spotferry/checkpoint/storetest"
)

// childEnv tells the test binary to be a saving process, and where.
const childEnv = "CHECKPOINT_TEST_CHILD"

// journal is a committer that is a file: a line is a commit, once it is whole.
type journal struct{ path string }

func (j journal) Commit(_ context.Context, ref checkpoint.Ref) error {
	f, err := os.OpenFile(j.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	line, err := json.Marshal(ref)
	if err != nil {
		return err
	}
	_, err = f.Write(append(line, '\n'))
	return err
}

// read returns the commits, newest first. A last line without an end is not one.
func (j journal) read(t *testing.T) (refs []checkpoint.Ref) {
	data, err := os.ReadFile(j.path)
	if os.IsNotExist(err) {
		return nil
	}
	must(t, err)
	data = data[:bytes.LastIndexByte(data, '\n')+1]
	for line := range bytes.Lines(data) {
		var ref checkpoint.Ref
		must(t, json.Unmarshal(line, &ref))
		refs = append([]checkpoint.Ref{ref}, refs...)
	}
	return refs
}

// chatty is a store that says on stdout when it begins and ends to put.
type chatty struct{ checkpoint.Store }

func (c chatty) Put(ctx context.Context, name string, r io.Reader, size int64) error {
	fmt.Println("begin", name)
	err := c.Store.Put(ctx, name, r, size)
	fmt.Println("end", name)
	return err
}

// stepTree is what the trainer has at a step: sizes on both sides of a buffer,
// one file that never changes, a link and a mode.
func stepTree(step int64) spec {
	return spec{
		"frozen.bin":   string(storetest.Content(300_000)),
		"weights.bin":  fmt.Sprintf("0600 %d:%s", step, storetest.Content(1_200_000)),
		"opt/state.pt": fmt.Sprintf("%d:%s", step, storetest.Content(70_000+int(step))),
		"state.json":   fmt.Sprintf(`{"global_step":%d}`, step),
		"empty":        "",
		"latest":       "->opt/state.pt",
	}
}

// child saves one step after the other until it is killed.
func child(where string) {
	fail := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	s, err := dir.Open(dir.Config{Path: filepath.Join(where, "store")})
	fail(err)
	e, err := checkpoint.New(checkpoint.Config{Store: chatty{s}, Tenant: "acme", Job: "job1",
		Committer: journal{filepath.Join(where, "journal")}})
	fail(err)
	for step := range int64(1000) {
		tree := fmt.Sprintf("checkpoint-%d", step)
		if _, err := os.Stat(filepath.Join(where, "trees", tree)); err != nil {
			fmt.Println("no more trees")
			break
		}
		_, err := e.Save(context.Background(), checkpoint.SaveRequest{Dir: filepath.Join(where, "trees"), Sub: tree, Epoch: 1, Step: step})
		fail(err)
	}
	os.Exit(0)
}

// TestKillDuringSave kills a real process with SIGKILL at twenty different
// points of its saves. Each new process finds what the others left.
func TestKillDuringSave(t *testing.T) {
	t.Parallel()
	where := t.TempDir()
	const steps = 4
	for step := range int64(steps) {
		writeIn(t, filepath.Join(where, "trees", fmt.Sprintf("checkpoint-%d", step)), stepTree(step))
	}
	log := journal{filepath.Join(where, "journal")}
	for round := range 20 {
		runChild(t, where, round)
		s, err := dir.Open(dir.Config{Path: filepath.Join(where, "store")})
		must(t, err)
		e, err := checkpoint.New(checkpoint.Config{Store: s, Tenant: "acme", Job: "job1"})
		must(t, err)
		if refs := log.read(t); len(refs) > 0 {
			got, err := restore(t, e, refs)
			if err != nil || len(got.Rejected) > 0 || got.Ref != refs[0] {
				t.Fatalf("round %d: Restore = %v, rejected %v, %v; want %v", round, got.Ref.Name, got.Rejected, err, refs[0].Name)
			}
			same(t, snapshot(t, got.Path), snapshot(t, filepath.Join(where, "trees", fmt.Sprintf("checkpoint-%d", got.Ref.Step))))
		}
		must(t, s.Close())
	}
	if len(log.read(t)) == 0 {
		t.Error("no child lived to commit anything: the test proves nothing")
	}
}

// runChild kills a child once it has said so many lines.
func runChild(t *testing.T, where string, lines int) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+where)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	r := bufio.NewScanner(out)
	for range lines + 1 {
		if !r.Scan() {
			break
		}
	}
	_ = cmd.Process.Kill() // it may have ended by itself
	_ = cmd.Wait()
	if stderr.Len() > 0 {
		t.Fatalf("child: %s", stderr.String())
	}
}
