package jobfile

import (
	"fmt"
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
		{"a directory in the home directory", "~/in: ./data", []Mount{{Path: "~/in", From: in("data")}}, ""},
		{"a directory as the home directory", "~: data", []Mount{{Path: "~", From: in("data")}}, ""},
		{"a directory in the working directory", "./in/: ~/data", []Mount{{Path: "in", From: in("data")}}, ""},
		{"a file under another name", "~/a/b.json: one.json", []Mount{{Path: "~/a", From: in("one.json"), File: "b.json"}}, ""},
		{"a file in the working directory", "b.json: one.json", []Mount{{Path: ".", From: in("one.json"), File: "b.json"}}, ""},
		{"a file onto the home directory keeps its name", "~/: one.json", []Mount{{Path: "~", From: in("one.json"), File: "one.json"}}, ""},
		{"two, in the order of the file", "{z: data, a: data/deep}", []Mount{{Path: "z", From: in("data")}, {Path: "a", From: in("data/deep")}}, ""},
		{"with a mode", "~/in: {source: ./data, mode: copy}", []Mount{{Path: "~/in", From: in("data")}}, ""},
		{"a bucket", "~/in: s3://my-bucket/set", []Mount{{Path: "~/in", Source: "s3://my-bucket/set"}}, ""},
		{"a bucket as SkyPilot writes it", "~/in: {source: gs://my-bucket, mode: COPY, store: gcs}", []Mount{{Path: "~/in", Source: "gs://my-bucket"}}, ""},
		{"a bucket without a mode", "in: {source: s3://my-bucket/set}", []Mount{{Path: "in", Source: "s3://my-bucket/set"}}, ""},
		{"an address as a file", "~/w.bin: https://example.org/v1.bin", []Mount{{Path: "~/w.bin", Source: "https://example.org/v1.bin"}}, ""},
		{"an address in a directory", "~/weights/: https://example.org/a/v1.bin?x=1", []Mount{{Path: "~/weights/v1.bin", Source: "https://example.org/a/v1.bin?x=1"}}, ""},
		{"a model", "~/model: hf://org/name@v1", []Mount{{Path: "~/model", Source: "hf://org/name@v1"}}, ""},
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

func TestABucketWithoutKeysIsSaidToBeReadAsAPublicOne(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]int{
		"": 1, "secrets: {AWS_ACCESS_KEY_ID: a, AWS_SECRET_ACCESS_KEY: b}\n": 0, "envs: {AWS_ACCESS_KEY_ID: a}\n": 0, "envs: {GS_ACCESS_KEY_ID: a}\n": 1,
	} {
		src := minimal + given + "file_mounts:\n  ~/a: s3://my-bucket/set\n  ~/b: hf://org/name\n"
		j, err := Read("job.yaml", []byte(src), Options{Now: now})
		if err != nil {
			t.Fatal(err)
		}
		said := 0
		for _, w := range j.Warnings {
			if strings.Contains(w.Message, "s3://my-bucket/set is read without keys") && strings.Contains(w.Message, "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY") && w.Line > 0 {
				said++
			}
		}
		if said != want {
			t.Errorf("with %q it is said %d times: %v", given, said, j.Warnings)
		}
	}
}

func TestCachesAreDirectoriesOfTheHomeDirectory(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ line, want, refused string }{
		{"~/.cache/huggingface", "[~/.cache/huggingface]", ""},
		{"[~/a/, ~/a, ~/b/./c]", "[~/a ~/b/c]", ""},
		{"/root/.cache", "", "is not below the home directory"},
		{"[~/a, ~/../x]", "", "is not below the home directory"},
		{"[~/$A]", "", "is not below the home directory"},
	} {
		j, err := Read("job.yaml", []byte("run: train\npolicy:\n  budget: $120\n  caches: "+tc.line+"\n"), Options{Now: now})
		if tc.refused != "" {
			if ps := refusals(t, err); len(ps) != 1 || !strings.Contains(ps[0].Message, tc.refused) || ps[0].Line == 0 || ps[0].Remedy == "" {
				t.Errorf("%s: %v", tc.line, err)
			}
			continue
		}
		if got := fmt.Sprint(j.Spec.Caches); err != nil || got != tc.want {
			t.Errorf("%s: %s, %v; want %s", tc.line, got, err, tc.want)
		}
	}
}
