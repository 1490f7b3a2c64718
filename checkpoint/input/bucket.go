package input

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/spotferry/spotferry/checkpoint/store/wire"
)

// bucket is a bucket of S3, or of what speaks its protocol, as Google's does.
type bucket struct {
	source Source
	core   minio.Core
	origin string // of the service, for keys
	stall  time.Duration
	public bool // nobody signs
}

// variables are the names under which a service's own tools look for their keys.
func (s Source) variables() (endpoint, access, secret, session string) {
	if s.Scheme == "gs" { // its HMAC keys
		return "GS_ENDPOINT_URL", "GS_ACCESS_KEY_ID", "GS_SECRET_ACCESS_KEY", ""
	}
	return "AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"
}

// KeyVariables are the variables that a source of keys is read with, as a job
// gives them; none: it needs none.
func (s Source) KeyVariables() []string {
	switch s.Scheme {
	case "s3", "gs":
		_, access, secret, _ := s.variables()
		return []string{access, secret}
	}
	return nil
}

func openBucket(s Source, cfg OpenConfig) (*bucket, error) {
	ve, va, vs, vt := s.variables()
	where := &url.URL{Scheme: "https", Host: "s3.amazonaws.com"}
	if s.Scheme == "gs" {
		where.Host = "storage.googleapis.com"
	}
	if e := cfg.Getenv(ve); e != "" {
		u, err := url.Parse(e)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || strings.Trim(u.Path, "/") != "" || u.User != nil {
			return nil, refusal("give https:// and a host, and nothing behind", "%s is %.100q, which is no service's address", ve, e)
		}
		where = u
	}
	b := &bucket{source: s, origin: where.Host, stall: cfg.Stall}
	opts := &minio.Options{Secure: where.Scheme == "https", Transport: watching{cfg.Transport}, MaxRetries: 1}
	opts.Creds = credentials.NewStaticV4(cfg.Getenv(va), cfg.Getenv(vs), cfg.Getenv(vt))
	if b.public = cfg.Getenv(va) == "" && cfg.Getenv(vs) == ""; b.public {
		opts.Creds = credentials.NewStatic("", "", "", credentials.SignatureAnonymous)
	}
	if s.Scheme == "s3" {
		if opts.Region = cfg.Getenv("AWS_REGION"); opts.Region == "" {
			opts.Region = cfg.Getenv("AWS_DEFAULT_REGION")
		}
		if opts.Region == "" && where.Host != "s3.amazonaws.com" {
			opts.Region = "us-east-1" // which services without regions take
		}
	}
	if where.Port() != "" {
		opts.BucketLookup = minio.BucketLookupPath
	}
	c, err := minio.New(where.Host, opts)
	if err != nil {
		return nil, refusal("correct it", "%s: %v", s, err)
	}
	b.core = minio.Core{Client: c}
	return b, nil
}

// watching tells a request's watch when its answer begins.
type watching struct{ next http.RoundTripper }

type watchKey struct{}

func (w watching) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := w.next.RoundTrip(r)
	if watch, ok := r.Context().Value(watchKey{}).(*wire.Watch); ok {
		watch.Moved()
	}
	return resp, err
}

func (b *bucket) watched(ctx context.Context) (context.Context, *wire.Watch) {
	watched, w := wire.NewWatch(ctx, b.stall)
	return context.WithValue(watched, watchKey{}, w), w
}

// List implements [Remote].
func (b *bucket) List(ctx context.Context) ([]File, error) {
	doing := "listing " + b.source.String()
	watched, w := b.watched(ctx)
	defer w.End()
	var names []string
	var found []minio.ObjectInfo
	for o := range b.core.Client.ListObjects(watched, b.source.Place, minio.ListObjectsOptions{Prefix: b.source.Path, Recursive: true}) {
		if o.Err != nil {
			return nil, b.fail(doing, watched, w, o.Err)
		}
		names, found = append(names, o.Key), append(found, o)
	}
	if err := w.Meaning(watched, nil); err != nil { // a list that is cut short by its end is none
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	return listed(doing, b.source.Path, names, func(i int) File {
		o := found[i]
		f := File{Size: o.Size, mark: strings.Trim(o.ETag, `"`)}
		if f.mark != "" {
			f.Key = fmt.Sprintf("%s://%s/%s/%s %s %d", b.source.Scheme, b.origin, b.source.Place, o.Key, f.mark, o.Size)
		}
		return f
	})
}

// Open implements [Remote].
func (b *bucket) Open(ctx context.Context, f File, off, n int64) (io.ReadCloser, error) {
	doing := fmt.Sprintf("fetching %s://%s/%s", b.source.Scheme, b.source.Place, f.name)
	var opts minio.GetObjectOptions
	if n < f.Size {
		opts.Set("Range", span(off, n))
	}
	if f.mark != "" {
		opts.Set("If-Match", `"`+f.mark+`"`)
	}
	watched, w := b.watched(ctx)
	body, info, header, err := b.core.GetObject(watched, b.source.Place, f.name, opts)
	if err != nil {
		defer w.End()
		return nil, b.fail(doing, watched, w, err)
	}
	r := wire.NewObject(watched, w, body, n, doing)
	switch {
	case f.mark != "" && strings.Trim(info.ETag, `"`) != f.mark, n == f.Size && info.Size != n:
		err = errChanged
	case n < f.Size:
		err = wire.Span(header.Get("Content-Range"), off, n)
	}
	if err != nil {
		_ = r.Close()
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	return r, nil
}

func (b *bucket) fail(doing string, watched context.Context, w *wire.Watch, err error) error {
	if meant := w.Meaning(watched, nil); meant != nil {
		return fmt.Errorf("%s: %w", doing, meant)
	}
	told, ok := errors.AsType[minio.ErrorResponse](err)
	if !ok || told.StatusCode == 0 {
		return fmt.Errorf("%s: %w", doing, wire.Broken(err))
	}
	err = meaning(doing, wire.Means(&wire.Error{Status: told.StatusCode, Code: told.Code, Detail: told.Message}))
	if r, ok := errors.AsType[*Refusal](err); ok && b.public && (told.StatusCode == http.StatusForbidden || told.StatusCode == http.StatusUnauthorized) {
		r.Remedy = "the bucket is not public: give the job " + strings.Join(b.source.KeyVariables(), " and ") + " as secrets"
	}
	return err
}
