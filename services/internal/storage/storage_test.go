package storage

import (
	"context"
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/spotferry/spotferry/checkpoint"
	"github.com/spotferry/spotferry/checkpoint/store/mem"
	"github.com/spotferry/spotferry/checkpoint/store/signed"
)

func TestWhereAStoreIs(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ where, wrong string }{
		{"/var/lib/store", ""}, {"store", ""}, {"dir:/x", ""}, {"./a:b", ""}, {"s3://bucket", ""}, {"s3://bucket/a/b?region=eu-central-1", ""},
		{"gs://bucket", ""}, {"az://account/container", ""}, {"served://10.0.0.1:7443/srv/checkpoints", ""},
		{"", "give a directory"}, {"s3:bucket", "want s3://BUCKET"}, {"s3:///x", "want s3://BUCKET"}, {"s3://key:secret@bucket", "keys do not belong"},
	} {
		err := Validate(tc.where)
		if (err == nil) != (tc.wrong == "") || err != nil && !strings.Contains(err.Error(), tc.wrong) {
			t.Errorf("Validate(%q) = %v, want %q", tc.where, err, tc.wrong)
		}
		if err != nil && strings.Contains(err.Error(), "secret@") {
			t.Errorf("Validate(%q) tells the secret: %v", tc.where, err)
		}
	}
}

func TestWhatCannotBeOpenedSaysWhy(t *testing.T) {
	t.Parallel()
	unsigned := Scheme{Name: "mem", Open: func(context.Context, *url.URL) (checkpoint.Store, error) { return mem.New(mem.Config{}), nil }}
	for where, want := range map[string]string{
		"ftp://host":               "this program knows dir, mem, s3, served",
		"mem://x":                  "signs no requests",
		"s3://bucket?color=red":    "want endpoint, region, path-style, unconditional, each once",
		"served://host/path":       "want served://HOST:PORT/PATH",
		"s3://b?region=a&region=b": "each once",
	} {
		if _, err := Open(t.Context(), where, zap.NewNop(), unsigned); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Open(%q) = %v, want %q", where, err, want)
		}
	}
}

func TestADirectoryNeedsNoSignatures(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "store")
	o, err := Open(t.Context(), dir, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	if o.Signer != nil || o.Grant.Kind != "dir" || o.Grant.Path != dir {
		t.Errorf("opened %+v", o.Grant)
	}
	if err := o.Close(); err != nil {
		t.Error(err)
	}
}

// granted is an access that the gateway gave.
type granted checkpoint.Access

func (g granted) Grant(context.Context, checkpoint.Verb, []checkpoint.Object) ([]checkpoint.Access, error) {
	return []checkpoint.Access{checkpoint.Access(g)}, nil
}

// A machine that shares no disk with the gateway puts an object over HTTP, by an
// access that an earlier gateway gave.
func TestAServedDirectoryIsReachedOverHTTP(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	where := "served://" + l.Addr().String() + filepath.Join(t.TempDir(), "store")
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	first, err := Open(t.Context(), where+"?listen="+l.Addr().String(), zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	access, err := first.Signer.Sign(t.Context(), checkpoint.VerbPut, "v1/a", 7, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	o, err := Open(t.Context(), where+"?listen="+l.Addr().String(), zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	machine, err := signed.Open(signed.Config{Granter: granted(access)})
	if err != nil {
		t.Fatal(err)
	}
	defer machine.Close()
	if err := machine.Put(t.Context(), "v1/a", strings.NewReader("content"), 7); err != nil {
		t.Fatal(err)
	}
	if size, err := o.Stat(t.Context(), "v1/a"); err != nil || size != 7 {
		t.Errorf("the gateway sees %d bytes, %v", size, err)
	}
}
