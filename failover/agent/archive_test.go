package agent

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"lukechampine.com/blake3"

	"github.com/spotferry/spotferry/checkpoint/input"
	"github.com/spotferry/spotferry/checkpoint/store/mem"
	"github.com/spotferry/spotferry/events"
)

func tarOf(t *testing.T, hs ...tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range hs {
		content := "content of " + h.Name
		if h.Typeflag == tar.TypeReg {
			h.Size = int64(len(content))
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg {
			if _, err := w.Write([]byte(content)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func zipped(t *testing.T, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// fetched stores data as a working directory and fetches it into a new one.
func fetched(t *testing.T, data []byte, bend func(*events.Archive)) (string, error) {
	t.Helper()
	store := mem.New(mem.Config{})
	sum := blake3.Sum256(data)
	a := events.Archive{Object: "v1/acme/workdirs/x", Hash: hex.EncodeToString(sum[:]), Bytes: int64(len(data))}
	if err := store.Put(t.Context(), a.Object, bytes.NewReader(data), a.Bytes); err != nil {
		t.Fatal(err)
	}
	bend(&a)
	base := t.TempDir()
	dir := filepath.Join(base, "work")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	bringer, err := input.New(input.Config{Scratch: filepath.Join(base, "scratch")})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // other bytes than submitted may once be the way's fault
		if err = fetchArchive(t.Context(), bringer, stored{store, a, true}, dir); err == nil || errors.Is(err, errArchive) {
			break
		}
	}
	if err := bringer.Close(); err != nil {
		t.Error(err)
	}
	return dir, err
}

func TestAWorkingDirectoryArrivesAsItWas(t *testing.T) {
	data := tarOf(t,
		tar.Header{Typeflag: tar.TypeDir, Name: "src/", Mode: 0o755},
		tar.Header{Typeflag: tar.TypeReg, Name: "./src/train.py", Mode: 0o644},
		tar.Header{Typeflag: tar.TypeReg, Name: "deep/er/run.sh", Mode: 0o4755},
		tar.Header{Typeflag: tar.TypeSymlink, Name: "src/link", Linkname: "../deep/er/run.sh"},
	)
	for name, d := range map[string][]byte{"tar": data, "tar.gz": zipped(t, data)} {
		t.Run(name, func(t *testing.T) {
			dir, err := fetched(t, d, func(*events.Archive) {})
			if err != nil {
				t.Fatal(err)
			}
			got, err := os.ReadFile(filepath.Join(dir, "src/link"))
			if string(got) != "content of deep/er/run.sh" || err != nil {
				t.Errorf("%q, %v", got, err)
			}
			info, err := os.Stat(filepath.Join(dir, "deep/er/run.sh"))
			if err != nil || info.Mode() != 0o755 {
				t.Errorf("mode %v, %v: without setuid", info.Mode(), err)
			}
		})
	}
}

func TestAWorkingDirectoryStaysInItsPlace(t *testing.T) {
	none := func(*events.Archive) {}
	link := tar.Header{Typeflag: tar.TypeSymlink, Name: "out", Linkname: "inner"}
	for _, tc := range []struct {
		name string
		data []byte
		bend func(*events.Archive)
	}{
		{"a name that leads out", tarOf(t, tar.Header{Typeflag: tar.TypeReg, Name: "../evil"}), none},
		{"an absolute name", tarOf(t, tar.Header{Typeflag: tar.TypeReg, Name: "/etc/evil"}), none},
		{"a link that leads out", tarOf(t, tar.Header{Typeflag: tar.TypeSymlink, Name: "a/b", Linkname: "../../x"}), none},
		{"an absolute link", tarOf(t, tar.Header{Typeflag: tar.TypeSymlink, Name: "a", Linkname: "/etc"}), none},
		{"a device", tarOf(t, tar.Header{Typeflag: tar.TypeChar, Name: "null"}), none},
		{"a FIFO", tarOf(t, tar.Header{Typeflag: tar.TypeFifo, Name: "fifo"}), none},
		{"a hard link", tarOf(t, tar.Header{Typeflag: tar.TypeLink, Name: "a", Linkname: "b"}), none},
		{"cut short", tarOf(t, tar.Header{Typeflag: tar.TypeReg, Name: "a"})[:515], none},
		{"nonsense", []byte("nonsense"), none},
		{"nonsense in a gzip", zipped(t, []byte("nonsense")), none},
		{"other bytes than submitted", tarOf(t, link), func(a *events.Archive) { a.Hash = hex.EncodeToString(make([]byte, 32)) }},
		{"fewer bytes than submitted", tarOf(t, link), func(a *events.Archive) { a.Bytes++ }},
		{"more bytes than submitted", tarOf(t, link), func(a *events.Archive) { a.Bytes-- }},
		{"not there", tarOf(t, link), func(a *events.Archive) { a.Object = "v1/other" }},
		{"no name of an object", tarOf(t, link), func(a *events.Archive) { a.Object = "../x" }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir, err := fetched(t, tc.data, tc.bend)
			if !errors.Is(err, errArchive) {
				t.Errorf("%v: want a failure that trying again does not mend", err)
			}
			if names, _ := filepath.Glob(filepath.Join(filepath.Dir(dir), "*")); len(names) != 1 {
				t.Errorf("outside: %v", names)
			}
		})
	}
}
