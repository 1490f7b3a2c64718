package azure_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"github.com/spotferry/spotferry/checkpoint"
	"github.com/spotferry/spotferry/checkpoint/store/azure"
)

const object = "23657296-5cd5-45b0-a809-d972a7f4dfe1" // an identity

// token is an identity that Azurite believes in: it reads who, until when and
// for what, and checks no signature.
type token struct{}

func (token) GetToken(context.Context, policy.TokenRequestOptions) (azcore.AccessToken, error) {
	now := time.Now()
	part := func(v map[string]any) string {
		data, _ := json.Marshal(v) // strings and numbers
		return base64.RawURLEncoding.EncodeToString(data)
	}
	jwt := part(map[string]any{"alg": "RS256", "typ": "JWT"}) + "." + part(map[string]any{
		"aud": "https://storage.azure.com", "iss": "https://sts.windows.net/ab1f708d-50f6-404c-a006-d71b2ac7a606/",
		"oid": object, "tid": "ab1f708d-50f6-404c-a006-d71b2ac7a606",
		"iat": now.Unix() - 60, "nbf": now.Unix() - 60, "exp": now.Add(time.Hour).Unix(),
	}) + ".c2lnbmVk"
	return azcore.AccessToken{Token: jwt, ExpiresOn: now.Add(time.Hour)}, nil
}

// TestEntra keeps objects as an identity of Entra, over TLS and with the
// account's name in the host as Azure has it, and signs with keys that the
// account gives it for a day. Azurite gives such keys, but does not know how
// this version of the service signs with them: what is signed is all that shows.
func TestEntra(t *testing.T) {
	cert, pool := certificate(t)
	e := serve(t, "--oauth", "basic", "--cert", cert+".crt", "--key", cert+".key")
	u, err := url.Parse(e.url)
	must(t, err)
	var keys atomic.Int32
	e.client = &http.Client{Transport: counting{&keys, &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: pool},
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, u.Host)
		},
	}}}
	t.Cleanup(e.client.CloseIdleConnections)
	e.url = "https://" + account + ".blob.localhost:" + u.Port()
	var later atomic.Int64
	now := func() time.Time { return time.Now().Add(time.Duration(later.Load())) }
	store := open(t, azure.Config{Account: account, Token: token{}, Endpoint: e.url, Container: e.container(t), Client: e.client, Now: now})

	must(t, store.Put(t.Context(), "v1/a", strings.NewReader("content"), 7))
	if size, err := store.Stat(t.Context(), "v1/a"); err != nil || size != 7 {
		t.Errorf("Stat = %d, %v", size, err)
	}
	for verb, allowed := range map[checkpoint.Verb]string{checkpoint.VerbPut: "c", checkpoint.VerbGet: "r", checkpoint.VerbHead: "r"} {
		access, err := store.Sign(t.Context(), verb, "v1/a", 7, time.Hour)
		must(t, err)
		signed, err := url.Parse(access.URL)
		must(t, err)
		q := signed.Query()
		if q.Get("sp") != allowed || q.Get("sr") != "b" || q.Get("spr") != "https" || q.Get("skoid") != object || q.Get("sig") == "" {
			t.Errorf("%s is signed as %v", verb, q)
		}
		ends, err := time.Parse(time.RFC3339, q.Get("se"))
		if must(t, err); ends.Before(access.Until) || ends.After(access.Until.Add(time.Second)) {
			t.Errorf("%s ends at %v, want %v", verb, ends, access.Until)
		}
	}
	if n := keys.Load(); n != 1 {
		t.Errorf("asked for %d keys, want one for all signatures of a day", n)
	}
	later.Store(int64(23*time.Hour + time.Minute))
	_, err = store.Sign(t.Context(), checkpoint.VerbGet, "v1/a", 0, time.Hour)
	must(t, err)
	if n := keys.Load(); n != 2 {
		t.Errorf("asked for %d keys, want another for a signature that outlives the first", n)
	}
}

// counting counts requests for user delegation keys.
type counting struct {
	n    *atomic.Int32
	next *http.Transport
}

func (c counting) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Query().Get("comp") == "userdelegationkey" {
		c.n.Add(1)
	}
	return c.next.RoundTrip(r)
}

func (c counting) CloseIdleConnections() { c.next.CloseIdleConnections() }

// certificate writes one for localhost and below.
func certificate(t *testing.T) (string, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "localhost"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{account + ".blob.localhost"},
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	must(t, err)
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	must(t, err)
	base := filepath.Join(t.TempDir(), "server")
	for ext, block := range map[string]*pem.Block{".crt": {Type: "CERTIFICATE", Bytes: der}, ".key": {Type: "PRIVATE KEY", Bytes: pkcs8}} {
		must(t, os.WriteFile(base+ext, pem.EncodeToMemory(block), 0o600))
	}
	parsed, err := x509.ParseCertificate(der)
	must(t, err)
	pool := x509.NewCertPool()
	pool.AddCert(parsed)
	return base, pool
}
