package gcs

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"cloud.google.com/go/storage"

	"github.com/spotferry/spotferry/checkpoint"
)

const (
	// rounding is what a V4 signature loses: both its date and its length are whole seconds.
	rounding = 2 * time.Second
	longest  = 7*24*time.Hour - rounding // what Google accepts
)

// Sign implements checkpoint.Signer with V4 signatures. A put has two signed
// headers, so a machine can leave out neither: one that refuses a name that is
// taken (412), one that refuses any other size (400).
func (s *Store) Sign(ctx context.Context, verb checkpoint.Verb, name string, size int64, life time.Duration) (checkpoint.Access, error) {
	if !checkpoint.ObjectName(name) {
		return checkpoint.Access{}, fmt.Errorf("signing for %q: not an object name", name)
	}
	if s.signer.email == "" {
		return checkpoint.Access{}, fmt.Errorf("signing for %s: the credentials belong to no service account: name a service account's key file", name)
	}
	if life < time.Second || life > longest {
		return checkpoint.Access{}, fmt.Errorf("signing for %s: a life of %v is not between a second and %v", name, life, longest)
	}
	method, header, err := request(verb, size)
	if err != nil {
		return checkpoint.Access{}, fmt.Errorf("signing for %s: %w", name, err)
	}
	until := s.now().Add(life)
	opts := &storage.SignedURLOptions{Scheme: storage.SigningSchemeV4, Method: method, Expires: until.Add(rounding),
		GoogleAccessID: s.signer.email, Hostname: s.host.Host, Insecure: s.host.Scheme == "http",
		SignBytes: func(b []byte) ([]byte, error) { return s.signer.sign(ctx, b) }}
	for key, value := range header {
		opts.Headers = append(opts.Headers, key+":"+value)
	}
	where, err := storage.SignedURL(s.name, s.prefix+name, opts)
	if err != nil {
		return checkpoint.Access{}, fmt.Errorf("signing for %s: %w", name, err)
	}
	return checkpoint.Access{Method: method, URL: where, Header: header, Until: until}, nil
}

func request(verb checkpoint.Verb, size int64) (method string, header map[string]string, err error) {
	switch verb {
	case checkpoint.VerbPut:
		if size < 0 {
			return "", nil, fmt.Errorf("a put of %d bytes", size)
		}
		n := strconv.FormatInt(size, 10)
		return http.MethodPut, map[string]string{"x-goog-if-generation-match": "0", "x-goog-content-length-range": n + "," + n}, nil
	case checkpoint.VerbGet:
		return http.MethodGet, nil, nil
	case checkpoint.VerbHead:
		return http.MethodHead, nil, nil
	}
	return "", nil, fmt.Errorf("no verb %q", verb)
}
