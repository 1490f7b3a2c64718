package gcs_test

import (
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// gate stands in front of a fake-gcs-server, which takes any signature and
// ignores what is signed. It checks V4 signatures with the account's public key,
// written from Google's description of them, and enforces expiry, the
// generation and the length range.
type gate struct {
	next string // host:port
	key  *rsa.PublicKey
	now  func() time.Time
}

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Query().Has("X-Goog-Algorithm") {
		if status, err := g.admit(r); err != nil {
			http.Error(w, err.Error(), status)
			return
		}
		if r.Method == http.MethodPut {
			r = insert(r)
		}
	}
	proxy := httputil.ReverseProxy{ErrorLog: log.New(io.Discard, "", 0), Rewrite: func(p *httputil.ProxyRequest) {
		p.SetURL(&url.URL{Scheme: "http", Host: g.next})
		p.Out.Host = g.next
	}}
	proxy.ServeHTTP(w, r)
}

// admit checks a signed request.
func (g *gate) admit(r *http.Request) (int, error) {
	q := r.URL.Query()
	date, err := time.Parse("20060102T150405Z", q.Get("X-Goog-Date"))
	if err != nil {
		return http.StatusBadRequest, err
	}
	life, err := strconv.Atoi(q.Get("X-Goog-Expires"))
	if err != nil {
		return http.StatusBadRequest, err
	}
	if g.now().After(date.Add(time.Duration(life) * time.Second)) {
		return http.StatusBadRequest, errors.New("ExpiredToken")
	}
	signature, err := hex.DecodeString(q.Get("X-Goog-Signature"))
	if err != nil {
		return http.StatusBadRequest, err
	}
	_, scope, _ := strings.Cut(q.Get("X-Goog-Credential"), "/")
	request := sha256.Sum256([]byte(canonical(r, q)))
	sum := sha256.Sum256(fmt.Appendf(nil, "GOOG4-RSA-SHA256\n%s\n%s\n%x", q.Get("X-Goog-Date"), scope, request))
	if err := rsa.VerifyPKCS1v15(g.key, crypto.SHA256, sum[:], signature); err != nil {
		return http.StatusForbidden, fmt.Errorf("SignatureDoesNotMatch: %w", err)
	}
	signed := strings.Split(q.Get("X-Goog-SignedHeaders"), ";")
	for key := range r.Header {
		if key = strings.ToLower(key); strings.HasPrefix(key, "x-goog-") && !slices.Contains(signed, key) {
			return http.StatusBadRequest, fmt.Errorf("MalformedSecurityHeader: %s is not signed", key)
		}
	}
	return within(r)
}

// canonical is the request as it is signed.
func canonical(r *http.Request, q url.Values) string {
	q.Del("X-Goog-Signature")
	signed := q.Get("X-Goog-SignedHeaders")
	var headers strings.Builder
	for name := range strings.SplitSeq(signed, ";") {
		value := r.Header.Get(name)
		if name == "host" {
			value, _, _ = strings.Cut(r.Host, ":")
		}
		fmt.Fprintf(&headers, "%s:%s\n", name, value)
	}
	return strings.Join([]string{r.Method, r.URL.EscapedPath(), strings.ReplaceAll(q.Encode(), "+", "%20"),
		headers.String(), signed, "UNSIGNED-PAYLOAD"}, "\n")
}

// within enforces the range of lengths.
func within(r *http.Request) (int, error) {
	low, high, ok := strings.Cut(r.Header.Get("X-Goog-Content-Length-Range"), ",")
	if !ok {
		return 0, nil
	}
	least, lerr := strconv.ParseInt(low, 10, 64)
	most, herr := strconv.ParseInt(high, 10, 64)
	if err := errors.Join(lerr, herr); err != nil || r.ContentLength < least || r.ContentLength > most {
		return http.StatusBadRequest, errors.Join(errors.New("EntityTooLarge"), err)
	}
	return 0, nil
}

// insert makes the JSON API's insert of a signed put: fake-gcs-server honours
// the generation there alone.
func insert(r *http.Request) *http.Request {
	bucket, name, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	q := url.Values{"uploadType": {"media"}, "name": {name}}
	if match := r.Header.Get("X-Goog-If-Generation-Match"); match != "" {
		q.Set("ifGenerationMatch", match)
	}
	r = r.Clone(r.Context())
	r.Method = http.MethodPost
	r.URL = &url.URL{Path: "/upload/storage/v1/b/" + bucket + "/o", RawQuery: q.Encode()}
	return r
}
