package jobfile

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestFileMountsAreFoundBeforeAnythingStarts(t *testing.T) {
	t.Parallel()
	here := t.TempDir()
	if err := os.MkdirAll(filepath.Join(here, "data", "deep"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(here, "one.json"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	in := func(name string) string { return filepath.Join(here, name) }
	for _, tc := range []struct {
		name, line string
		want       []Mount
		refused    string
	}{
		{"a directory in the home directory", "~/in: ./data", []Mount{{"~/in", in("data"), ""}}, ""},
		{"a directory as the home directory", "~: data", []Mount{{"~", in("data"), ""}}, ""},
		{"a directory in the working directory", "./in/: ~/data", []Mount{{"in", in("data"), ""}}, ""},
		{"a file under another name", "~/a/b.json: one.json", []Mount{{"~/a", in("one.json"), "b.json"}}, ""},
		{"a file in the working directory", "b.json: one.json", []Mount{{".", in("one.json"), "b.json"}}, ""},
		{"a file onto the home directory keeps its name", "~/: one.json", []Mount{{"~", in("one.json"), "one.json"}}, ""},
		{"two, in the order of the file", "{z: data, a: data/deep}", []Mount{{"z", in("data"), ""}, {"a", in("data/deep"), ""}}, ""},
		{"with a mode", "~/in: {source: ./data, mode: copy}", []Mount{{"~/in", in("data"), ""}}, ""},
		{"not there", "~/in: ./nowhere", nil, "there is no"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			src := minimal + "file_mounts:\n  " + tc.line + "\n"
			if strings.HasPrefix(tc.line, "{") {
				src = minimal + "file_mounts: " + tc.line + "\n"
			}
			j, err := Read("job.yaml", []byte(src), Options{Now: now, Dir: here, Home: here, Stat: os.Stat})
			if tc.refused != "" {
				if ps := refusals(t, err); len(ps) != 1 || !strings.Contains(ps[0].Message, tc.refused) || ps[0].Line != 4 {
					t.Errorf("got %v", err)
				}
				return
			}
			if err != nil || !reflect.DeepEqual(j.Mounts, tc.want) {
				t.Errorf("mounts are %+v, %v; want %+v", j.Mounts, err, tc.want)
			}
		})
	}
}
