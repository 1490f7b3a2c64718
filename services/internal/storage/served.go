package storage

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"go.uber.org/zap"

	"github.com/spotferry/spotferry/checkpoint"
	"github.com/spotferry/spotferry/checkpoint/store/dir"
	"github.com/spotferry/spotferry/checkpoint/store/served"
)

// servedDir is a directory of this machine that others reach over HTTP.
type servedDir struct {
	checkpoint.Store
	checkpoint.Signer
	server *http.Server
	listen net.Listener
	dir    *dir.Store
}

func openServed(u *url.URL, log *zap.Logger) (checkpoint.Store, error) {
	q, err := Options(u, "listen")
	if err != nil {
		return nil, err
	}
	if u.Port() == "" || u.Path == "" {
		return nil, errors.New("want served://HOST:PORT/PATH, where machines reach this one and what is served")
	}
	secret, err := secretOf(filepath.Clean(u.Path))
	if err != nil {
		return nil, err
	}
	d, err := dir.Open(dir.Config{Path: u.Path})
	if err != nil {
		return nil, err
	}
	s, err := served.New(served.Config{Store: d, URL: "http://" + u.Host + "/objects", Secret: secret, Log: log})
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	l, err := net.Listen("tcp", cmp.Or(q["listen"], ":"+u.Port()))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("serving the checkpoint store: %w", err), d.Close())
	}
	o := &servedDir{Store: d, Signer: s, server: s.Server(), listen: l, dir: d}
	go func() {
		if err := o.server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			log.Error("serving the checkpoint store", zap.Error(err))
		}
	}()
	return o, nil
}

// Close ends the service, with what it is doing if that takes long.
func (o *servedDir) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if o.server.Shutdown(ctx) != nil {
		_ = o.server.Close() // of connections that nobody waits for any more
	}
	_ = o.listen.Close() // is closed already, unless serving had not begun
	return o.dir.Close()
}

// secretOf returns the secret of a served directory, which lies beside it so that
// every gateway of an installation has the same. It is made once.
func secretOf(path string) ([]byte, error) {
	file := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".secret")
	if b, err := os.ReadFile(file); !errors.Is(err, fs.ErrNotExist) {
		return b, err
	}
	fresh := make([]byte, 32)
	if _, err := rand.Read(fresh); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	if err := once(file, fresh); err != nil {
		return nil, err
	}
	return os.ReadFile(file)
}
