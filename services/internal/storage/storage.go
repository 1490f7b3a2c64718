// Package storage opens the checkpoint store that an installation names by a URL:
//
//	/var/lib/spotferry/store, or dir:PATH     a directory that every machine sees
//	s3://BUCKET/PREFIX?endpoint=&region=      Amazon's S3 and what speaks its protocol
//	served://HOST:PORT/PATH?listen=           a directory of the gateway's machine, which
//	                                          serves it to the others at HOST:PORT over HTTP
//
// A program may bring more schemes: the gateway's brings those of Google and
// Azure, whose SDKs are in no other. Keys are where each service's own tools look
// for them; none is in a URL. Machines get signed requests for every store but a
// directory.
package storage

import (
	"context"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/spotferry/spotferry/checkpoint"
	"github.com/spotferry/spotferry/checkpoint/store/dir"
	"github.com/spotferry/spotferry/checkpoint/store/retry"
	"github.com/spotferry/spotferry/checkpoint/store/s3"
	"github.com/spotferry/spotferry/events"
)

// Scheme opens the stores whose URLs begin with Name. What it opens is a
// [checkpoint.Signer] too.
type Scheme struct {
	Name string
	Open func(ctx context.Context, u *url.URL) (checkpoint.Store, error)
}

// Opened is an open store, what machines are told of it, and who signs for them.
type Opened struct {
	checkpoint.Store
	Signer checkpoint.Signer // nil: machines need none
	Grant  events.StoreGrant
	close  []io.Closer
}

// Close releases what the store holds.
func (o *Opened) Close() error {
	var first error
	for _, c := range o.close {
		if err := c.Close(); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// Validate says what is wrong with where a store is to be, as far as that can be
// seen without the schemes of other programs.
func Validate(where string) error {
	u, err := parse(where)
	if err != nil {
		return err
	}
	if u.User != nil {
		return fmt.Errorf("store %q: keys do not belong into a URL: give them as the service's own tools take them", u.Redacted())
	}
	if u.Scheme != "dir" && u.Host == "" {
		return fmt.Errorf("store %q: want %s://BUCKET or %s://BUCKET/PREFIX", where, u.Scheme, u.Scheme)
	}
	return nil
}

// parse reads a URL, or a path as one of dir.
func parse(where string) (*url.URL, error) {
	if where == "" {
		return nil, fmt.Errorf("store: give a directory or a URL such as s3://BUCKET/PREFIX")
	}
	scheme, rest, found := strings.Cut(where, ":")
	if !found || scheme == "dir" || strings.ContainsAny(scheme, "/.") {
		if scheme != "dir" {
			rest = where
		}
		return &url.URL{Scheme: "dir", Path: rest}, nil
	}
	u, err := url.Parse(where)
	if err != nil {
		return nil, fmt.Errorf("store %q is no URL: %w", where, err)
	}
	return u, nil
}

// Open opens a store.
func Open(ctx context.Context, where string, log *zap.Logger, more ...Scheme) (*Opened, error) {
	if err := Validate(where); err != nil {
		return nil, err
	}
	u, err := parse(where)
	if err != nil {
		return nil, err
	}
	if u.Scheme == "dir" {
		path, err := filepath.Abs(u.Path)
		if err != nil {
			return nil, err
		}
		s, err := dir.Open(dir.Config{Path: path})
		if err != nil {
			return nil, err
		}
		return &Opened{Store: s, Grant: events.StoreGrant{Kind: "dir", Path: path}, close: []io.Closer{s}}, nil
	}
	schemes := map[string]Scheme{
		"s3":     {Name: "s3", Open: openS3},
		"served": {Name: "served", Open: func(ctx context.Context, u *url.URL) (checkpoint.Store, error) { return openServed(u, log) }},
	}
	for _, s := range more {
		schemes[s.Name] = s
	}
	scheme, ok := schemes[u.Scheme]
	if !ok {
		return nil, fmt.Errorf("store %q: this program knows dir, %s", u.Redacted(), strings.Join(slices.Sorted(maps.Keys(schemes)), ", "))
	}
	s, err := scheme.Open(ctx, u)
	if err != nil {
		return nil, fmt.Errorf("opening the store %s: %w", u.Redacted(), err)
	}
	signer, ok := s.(checkpoint.Signer)
	if !ok {
		return nil, fmt.Errorf("the store %s signs no requests, so no machine can use it", u.Redacted())
	}
	o := &Opened{Signer: signer, Grant: events.StoreGrant{Kind: "signed"}}
	if c, ok := s.(io.Closer); ok {
		o.close = append(o.close, c)
	}
	o.Store = retry.New(s, retry.Config{
		Jitter: rand.Float64,
		OnRepeat: func(op, name string, err error) {
			log.Info("store, trying again", zap.String("op", op), zap.String("object", name), zap.Error(err))
		},
		OnState: func(state string) { log.Warn("store's breaker", zap.String("state", state)) },
	})
	return o, nil
}

func openS3(ctx context.Context, u *url.URL) (checkpoint.Store, error) {
	q, err := Options(u, "endpoint", "region", "path-style", "unconditional")
	if err != nil {
		return nil, err
	}
	return s3.Open(s3.Config{Bucket: u.Host, Prefix: strings.Trim(u.Path, "/"), Endpoint: q["endpoint"], Region: q["region"],
		PathStyle: q["path-style"] == "true", Unconditional: q["unconditional"] == "true"})
}

// Options returns a URL's query, which may have these keys only, each once.
func Options(u *url.URL, keys ...string) (map[string]string, error) {
	out := map[string]string{}
	for k, v := range u.Query() {
		if !slices.Contains(keys, k) || len(v) != 1 {
			return nil, fmt.Errorf("option %.40q: want %s, each once", k, strings.Join(keys, ", "))
		}
		out[k] = v[0]
	}
	return out, nil
}
