package checkpoint_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/spotferry/spotferry/checkpoint"
	"github.com/spotferry/spotferry/checkpoint/store/mem"
)

var someHash = strings.Repeat("0123456789abcdef", 4)

func good(files ...checkpoint.File) checkpoint.Manifest {
	return checkpoint.Manifest{Schema: 1, Tenant: "acme", Job: "job1", Epoch: 2, Step: 30, Dir: "checkpoint-30", Created: epochStart,
		Files: append([]checkpoint.File{{Path: ".", Kind: checkpoint.Directory, Mode: 0o755}}, files...)}
}

func file(path string) checkpoint.File {
	return checkpoint.File{Path: path, Kind: checkpoint.Regular, Mode: 0o644, Size: 3, Hash: someHash}
}

func link(path, text string) checkpoint.File {
	return checkpoint.File{Path: path, Kind: checkpoint.Symlink, Link: text}
}

func directory(path string) checkpoint.File {
	return checkpoint.File{Path: path, Kind: checkpoint.Directory, Mode: 0o755}
}

func TestManifestRefuses(t *testing.T) {
	t.Parallel()
	with := func(change func(*checkpoint.Manifest)) checkpoint.Manifest {
		m := good(file("a"))
		change(&m)
		return m
	}
	for name, m := range map[string]checkpoint.Manifest{
		"an absolute path":                     good(file("/a")),
		"a path up":                            good(file("../a")),
		"a path with an inner dot":             good(directory("d"), file("d/../a")),
		"a path that is not clean":             good(directory("d"), file("d//a")),
		"an empty path":                        good(file("")),
		"a backslash":                          good(file(`a\b`)),
		"a NUL":                                good(file("a\x00b")),
		"a path that is not UTF-8":             good(file("a\xff")),
		"a part of 256 bytes":                  good(file(strings.Repeat("a", 256))),
		"a path of 4096 bytes":                 good(file(strings.Repeat("a/", 2047) + "bb")),
		"a path twice":                         good(file("a"), file("a")),
		"a file in no directory":               good(file("d/a")),
		"a file in a file":                     good(file("d"), file("d/a")),
		"a file behind a link":                 good(link("d", "."), file("d/a")),
		"a link to an absolute path":           good(link("l", "/etc")),
		"a link out":                           good(link("l", "..")),
		"a link out by way of nothing":         good(link("l", "none/../../x")),
		"a link out by way of another":         good(directory("d"), link("d/top", ".."), link("l", "d/top/../x")),
		"a link to nothing at all":             good(link("l", "")),
		"a link with a mode":                   good(checkpoint.File{Path: "l", Kind: checkpoint.Symlink, Link: "a", Mode: 0o777}),
		"a setuid file":                        with(func(m *checkpoint.Manifest) { m.Files[1].Mode = 0o4755 }),
		"a negative size":                      with(func(m *checkpoint.Manifest) { m.Files[1].Size = -1 }),
		"sizes that do not add up to an int64": good(big("a"), big("b"), big("c")),
		"a hash that is not one":               with(func(m *checkpoint.Manifest) { m.Files[1].Hash = strings.ToUpper(someHash) }),
		"a hash that is a path":                with(func(m *checkpoint.Manifest) { m.Files[1].Hash = "../" + someHash[3:] }),
		"a device":                             with(func(m *checkpoint.Manifest) { m.Files[1].Kind = "device" }),
		"a directory with a size":              with(func(m *checkpoint.Manifest) { m.Files[0].Size = 1 }),
		"no directory of its own":              with(func(m *checkpoint.Manifest) { m.Files = m.Files[1:] }),
		"no files at all":                      with(func(m *checkpoint.Manifest) { m.Files = nil }),
		"a tenant that is a path":              with(func(m *checkpoint.Manifest) { m.Tenant = "a/b" }),
		"a job that is hidden":                 with(func(m *checkpoint.Manifest) { m.Job = ".." }),
		"a negative epoch":                     with(func(m *checkpoint.Manifest) { m.Epoch = -1 }),
		"a negative step":                      with(func(m *checkpoint.Manifest) { m.Step = -1 }),
		"an epoch too wide for the name":       with(func(m *checkpoint.Manifest) { m.Epoch = 10_000_000_000 }),
		"a negative save":                      with(func(m *checkpoint.Manifest) { m.Save = -1 }),
		"a tree called like an unfinished one": with(func(m *checkpoint.Manifest) { m.Dir = ".incoming-x" }),
		"a tree called like a path":            with(func(m *checkpoint.Manifest) { m.Dir = "a/b" }),
		"a tree without a name":                with(func(m *checkpoint.Manifest) { m.Dir = "" }),
		"a year of five digits":                with(func(m *checkpoint.Manifest) { m.Created = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC) }),
		"a framework with a newline":           with(func(m *checkpoint.Manifest) { m.Framework = "hf\n" }),
		"schema 0":                             with(func(m *checkpoint.Manifest) { m.Schema = 0 }),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if data, err := m.Encode(); !errors.Is(err, checkpoint.ErrManifest) {
				t.Errorf("Encode = %.100s, %v; want ErrManifest", data, err)
			}
		})
	}
}

func big(path string) checkpoint.File {
	f := file(path)
	f.Size = 1 << 62
	return f
}

func TestDecodeRefuses(t *testing.T) {
	t.Parallel()
	data, err := good(file("a")).Encode()
	must(t, err)
	text := string(data)
	for _, tc := range []struct {
		name, in string
		want     error
	}{
		{"nothing", "", checkpoint.ErrManifest},
		{"half of one", text[:len(text)/2], checkpoint.ErrManifest},
		{"one without its last byte", text[:len(text)-1], checkpoint.ErrManifest},
		{"something after the end", text + "{}", checkpoint.ErrManifest},
		{"white space", strings.Replace(text, ",", ", ", 1), checkpoint.ErrManifest},
		{"an unknown field", strings.Replace(text, `"job"`, `"x":1,"job"`, 1), checkpoint.ErrManifest},
		{"a repeated key", strings.Replace(text, `"job"`, `"job":"other","job"`, 1), checkpoint.ErrManifest},
		{"a key in other case", strings.Replace(text, `"job"`, `"JOB"`, 1), checkpoint.ErrManifest},
		{"a number as text", strings.Replace(text, `"step":30`, `"step":"30"`, 1), checkpoint.ErrManifest},
		{"a number with an exponent", strings.Replace(text, `"step":30`, `"step":3e1`, 1), checkpoint.ErrManifest},
		{"a path up", strings.Replace(text, `"path":"a"`, `"path":"../a"`, 1), checkpoint.ErrManifest},
		{"NULs", "\x00\x00\x00", checkpoint.ErrManifest},
		{"ten thousand brackets", strings.Repeat("[", 20_000), checkpoint.ErrManifest},
		{"a newer schema with fields of its own", `{"schema":3,"bases":[]}`, checkpoint.ErrSchema},
		{"no schema", `{}`, checkpoint.ErrManifest},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if _, err := checkpoint.Decode([]byte(tc.in)); !errors.Is(err, tc.want) {
				t.Errorf("Decode = %v, want %v", err, tc.want)
			}
		})
	}
	t.Run("more than a manifest can have", func(t *testing.T) {
		if _, err := checkpoint.Decode(make([]byte, checkpoint.MaxManifest+1)); !errors.Is(err, checkpoint.ErrManifest) {
			t.Errorf("Decode = %v, want ErrManifest", err)
		}
	})
	t.Run("thousands of long links through each other do not take long", func(t *testing.T) {
		m := good(link("l00", strings.Repeat("d/../", 800)))
		for i := range 20 {
			m.Files = append(m.Files, link(fmt.Sprintf("l%02d", i+1), fmt.Sprintf("l%02d/..%s", i, strings.Repeat("/d/..", 800))))
		}
		if _, err := m.Encode(); !errors.Is(err, checkpoint.ErrManifest) {
			t.Errorf("Encode = %v, want ErrManifest", err)
		}
	})
}

// manifests draws manifests that are sound: any tree of printable names.
func manifests(t *rapid.T) checkpoint.Manifest {
	names := rapid.SliceOfDistinct(rapid.StringMatching(`[a-zé\n"<. -]{1,8}`), rapid.ID[string]).Draw(t, "names")
	m := good()
	for i, n := range slices.Sorted(slices.Values(names)) {
		if n = strings.Trim(n, "."); n == "" || slices.ContainsFunc(m.Files, func(f checkpoint.File) bool { return f.Path == n }) {
			continue
		}
		f := []checkpoint.File{file(n), directory(n), link(n, "somewhere")}[i%3]
		m.Files = append(m.Files, f)
		if f.Kind == checkpoint.Directory {
			m.Files = append(m.Files, file(n+"/"+n))
		}
	}
	m.Step = rapid.Int64Min(0).Draw(t, "step")
	m.Epoch = rapid.IntRange(0, 9_999_999_999).Draw(t, "epoch")
	m.Save = time.Duration(rapid.Int64Min(0).Draw(t, "save"))
	return m
}

func TestManifestRoundTrips(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := manifests(t)
		data, err := m.Encode()
		if err != nil {
			t.Fatalf("Encode = %v", err)
		}
		m.Files = rapid.Permutation(m.Files).Draw(t, "another order")
		again, err := m.Encode()
		if err != nil || !bytes.Equal(again, data) {
			t.Fatalf("another order encodes differently: %v", err)
		}
		got, err := checkpoint.Decode(data)
		if err != nil {
			t.Fatalf("Decode = %v", err)
		}
		if b, err := got.Encode(); err != nil || !bytes.Equal(b, data) {
			t.Fatalf("decoded and encoded = %s, %v", b, err)
		}
	})
}

func FuzzDecode(f *testing.F) {
	data, err := good(directory("d"), file("d/a"), link("l", "d/a")).Encode()
	must(f, err)
	f.Add(data)
	f.Add([]byte(`{"schema":1,"files":[{"path":"."}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := checkpoint.Decode(data)
		if err != nil {
			if !errors.Is(err, checkpoint.ErrManifest) && !errors.Is(err, checkpoint.ErrSchema) {
				t.Errorf("Decode = %v, neither ErrManifest nor ErrSchema", err)
			}
			return
		}
		if again, err := m.Encode(); err != nil || !bytes.Equal(again, data) {
			t.Errorf("what was decoded encodes to %q, %v", again, err)
		}
	})
}

func TestConfigRefuses(t *testing.T) {
	t.Parallel()
	store := mem.New(mem.Config{})
	for name, cfg := range map[string]checkpoint.Config{
		"no store":           {Tenant: "a", Job: "b"},
		"no tenant":          {Store: store, Job: "b"},
		"a job with a slash": {Store: store, Tenant: "a", Job: "b/c"},
		"a job with a star":  {Store: store, Tenant: "a", Job: "*"},
		"a job of 200 bytes": {Store: store, Tenant: "a", Job: strings.Repeat("j", 200)},
		"minus one worker":   {Store: store, Tenant: "a", Job: "b", Workers: -1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := checkpoint.New(cfg); err == nil {
				t.Error("New accepted it")
			}
		})
	}
}
