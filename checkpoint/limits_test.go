package checkpoint_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/spotferry/spotferry/checkpoint"
	"github.com/spotferry/spotferry/checkpoint/store/mem"
)

func TestWhereATreeMayBe(t *testing.T) {
	t.Parallel()
	dir := write(t, "out", spec{"checkpoint-1/a": "x", "away": "->/etc", "up": "->..", "file": "x"})
	for _, tc := range []struct {
		name, sub, as string
		want          error
	}{
		{"a directory in ours", "checkpoint-1", "", nil},
		{"one that is gone", "checkpoint-2", "", checkpoint.ErrVanished},
		{"a link to the host", "away", "", errAny},
		{"a link to our parent", "up", "", errAny},
		{"a path up", "../out", "", errAny},
		{"an absolute path", "/etc", "", errAny},
		{"a file", "file", "", errAny},
		{"a name that looks unfinished", "checkpoint-1", ".incoming-x", checkpoint.ErrManifest},
		{"a name that is a path", "checkpoint-1", "../x", checkpoint.ErrManifest},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			e, _ := engine(t, mem.New(mem.Config{}))
			_, err := e.Upload(t.Context(), checkpoint.SaveRequest{Dir: dir, Sub: tc.sub, As: tc.as, Epoch: 1, Step: 1})
			if (err == nil) != (tc.want == nil) || tc.want != errAny && !errors.Is(err, tc.want) {
				t.Errorf("Upload = %v, want %v", err, tc.want)
			}
		})
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	dir := write(t, "checkpoint-1", spec{"a": "12345", "b": "678", "c/d": ""})
	for _, tc := range []struct {
		name  string
		bytes int64
		files int
		want  error
	}{
		{"as much as allowed", 8, 5, nil},
		{"a byte too many", 7, 5, checkpoint.ErrTooLarge},
		{"an entry too many", 8, 4, checkpoint.ErrTooLarge},
		{"no limits given", 0, 0, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			e, err := checkpoint.New(checkpoint.Config{Store: mem.New(mem.Config{}), Tenant: "acme", Job: "job1",
				MaxBytes: tc.bytes, MaxFiles: tc.files})
			must(t, err)
			if _, err := e.Upload(t.Context(), checkpoint.SaveRequest{Dir: dir, Epoch: 1}); !errors.Is(err, tc.want) {
				t.Errorf("Upload = %v, want %v", err, tc.want)
			}
		})
	}
	t.Run("a sparse file larger than any disk is refused unread", func(t *testing.T) {
		t.Parallel()
		dir := write(t, "checkpoint-1", spec{"huge": ""})
		if err := os.Truncate(dir+"/huge", 1<<40); errors.Is(err, syscall.EFBIG) {
			t.Skip("the file system has no files that large")
		}
		e, err := checkpoint.New(checkpoint.Config{Store: mem.New(mem.Config{}), Tenant: "acme", Job: "job1", MaxBytes: 1 << 39})
		must(t, err)
		_, err = e.Upload(t.Context(), checkpoint.SaveRequest{Dir: dir, Epoch: 1})
		if !errors.Is(err, checkpoint.ErrTooLarge) || !strings.Contains(fmt.Sprint(err), "huge") {
			t.Errorf("Upload = %v, want ErrTooLarge naming the file", err)
		}
	})
}
