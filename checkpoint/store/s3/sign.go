package s3

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/spotferry/spotferry/checkpoint"
)

// longest is what the protocol lets a signature last.
const longest = 7 * 24 * time.Hour

// largest is what one put may have.
const largest = 5 << 30

// Sign implements checkpoint.Signer. A put has its condition and its size among
// what is signed, so that a machine can leave out neither. A signature made with
// temporary credentials ends with them, if they end sooner.
func (s *Store) Sign(ctx context.Context, verb checkpoint.Verb, name string, size int64, life time.Duration) (checkpoint.Access, error) {
	fail := func(format string, args ...any) (checkpoint.Access, error) {
		return checkpoint.Access{}, fmt.Errorf("signing a %s of %q: "+format, append([]any{verb, name}, args...)...)
	}
	if !checkpoint.ObjectName(name) {
		return fail("not an object name")
	}
	if life < time.Second || life > longest {
		return fail("a life of %v is not between a second and %v", life, longest)
	}
	method, header, err := s.request(verb, size)
	if err != nil {
		return fail("%w", err)
	}
	signed := http.Header{}
	for k, v := range header {
		signed.Set(k, v)
	}
	until := s.cfg.Now().Add(life)
	if creds, err := s.core.GetCreds(); err == nil && !creds.Expiration.IsZero() && creds.Expiration.Before(until) {
		until = creds.Expiration
	}
	where, err := s.core.PresignHeader(ctx, method, s.cfg.Bucket, s.prefix+name, life, nil, signed)
	if err != nil {
		return fail("%w", err)
	}
	return checkpoint.Access{Method: method, URL: where.String(), Header: header, Until: until}, nil
}

func (s *Store) request(verb checkpoint.Verb, size int64) (method string, header map[string]string, err error) {
	switch verb {
	case checkpoint.VerbPut:
		if size < 0 || size > largest {
			return "", nil, fmt.Errorf("%d bytes are not between 0 and %d", size, int64(largest))
		}
		header = map[string]string{"Content-Length": strconv.FormatInt(size, 10)}
		if !s.cfg.Unconditional {
			header["If-None-Match"] = "*"
		}
		return http.MethodPut, header, nil
	case checkpoint.VerbGet:
		return http.MethodGet, nil, nil
	case checkpoint.VerbHead:
		return http.MethodHead, nil, nil
	}
	return "", nil, fmt.Errorf("no such verb")
}
