package gcs

import (
	"bytes"
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"cloud.google.com/go/auth"
	"cloud.google.com/go/auth/credentials"
	"cloud.google.com/go/auth/httptransport"
	"cloud.google.com/go/compute/metadata"
	"cloud.google.com/go/storage"

	"github.com/spotferry/spotferry/checkpoint/store/wire"
)

const (
	iam      = "https://iamcredentials.googleapis.com/v1/projects/-/serviceAccounts/"
	iamScope = "https://www.googleapis.com/auth/iam"
)

// signer is an account that can sign.
type signer struct {
	email string
	sign  func(ctx context.Context, b []byte) ([]byte, error)
}

// identify returns a transport that sends as the account, if it may send tokens
// at all, and the account as a signer.
func identify(ctx context.Context, file string, secure bool) (http.RoundTripper, signer, error) {
	base := wire.Transport()
	base.ResponseHeaderTimeout = time.Minute
	if !secure && file == "" {
		return base, signer{}, nil // a server on this machine, without accounts
	}
	creds, err := load(file)
	if err != nil {
		return nil, signer{}, err
	}
	client := &http.Client{Transport: base}
	if secure {
		if err := httptransport.AddAuthorizationMiddleware(client, creds); err != nil {
			return nil, signer{}, err
		}
	}
	who, err := account(ctx, creds, client)
	return client.Transport, who, err
}

// load reads a credentials file, or finds the application default credentials.
func load(file string) (*auth.Credentials, error) {
	opts := &credentials.DetectOptions{Scopes: []string{storage.ScopeReadWrite, iamScope}}
	if file == "" {
		creds, err := credentials.DetectDefault(opts)
		if err != nil {
			return nil, fmt.Errorf("no credentials: name a file, or set up application default credentials: %w", err)
		}
		return creds, nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading the credentials: %w", err)
	}
	var kind struct {
		Type credentials.CredType `json:"type"`
	}
	if err := json.Unmarshal(data, &kind); err != nil {
		return nil, fmt.Errorf("reading the credentials in %s: %w", file, err)
	}
	switch kind.Type {
	case credentials.ServiceAccount, credentials.ExternalAccount, credentials.ImpersonatedServiceAccount:
		return credentials.NewCredentialsFromJSON(kind.Type, data, opts)
	}
	return nil, fmt.Errorf("the credentials in %s are of type %q: make a key for a service account", file, kind.Type)
}

// account finds out who signs, and with what.
func account(ctx context.Context, creds *auth.Credentials, client *http.Client) (signer, error) {
	var file struct {
		Email   string `json:"client_email"`
		Key     string `json:"private_key"`
		Subject string `json:"service_account_impersonation_url"`
	}
	if data := creds.JSON(); len(data) > 0 {
		if err := json.Unmarshal(data, &file); err != nil {
			return signer{}, fmt.Errorf("reading the credentials: %w", err)
		}
	}
	if file.Key != "" {
		key, err := parse(file.Key)
		return signer{file.Email, func(_ context.Context, b []byte) ([]byte, error) {
			sum := sha256.Sum256(b)
			return rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, sum[:])
		}}, err
	}
	email := impersonated(file.Subject)
	if email == "" && metadata.OnGCEWithContext(ctx) {
		var err error
		if email, err = metadata.EmailWithContext(ctx, "default"); err != nil {
			return signer{}, fmt.Errorf("asking the metadata server for the account: %w", err)
		}
	}
	return signer{email, func(ctx context.Context, b []byte) ([]byte, error) {
		return signBlob(ctx, client, iam+url.PathEscape(email)+":signBlob", b)
	}}, nil
}

func parse(key string) (*rsa.PrivateKey, error) {
	block, _ := pem.Decode([]byte(key))
	if block == nil {
		return nil, errors.New("the credentials' private_key is not PEM")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("the credentials' private_key: %w", err)
	}
	if rsaKey, ok := parsed.(*rsa.PrivateKey); ok {
		return rsaKey, nil
	}
	return nil, errors.New("the credentials' private_key is not an RSA key")
}

// impersonated returns the account in ".../serviceAccounts/<email>:generateAccessToken".
func impersonated(where string) string {
	_, rest, _ := strings.Cut(where, "/serviceAccounts/")
	email, _, _ := strings.Cut(rest, ":")
	return email
}

// signBlob has Google sign with a key that it keeps. The SDK's own call cannot
// be cancelled.
func signBlob(ctx context.Context, client *http.Client, where string, b []byte) (signed []byte, err error) {
	body, err := json.Marshal(map[string][]byte{"payload": b})
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, where, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	data, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %.300s: grant the account iam.serviceAccounts.signBlob on itself, or give it a key file", resp.Status, data)
	}
	var answer struct {
		Signed []byte `json:"signedBlob"`
	}
	if err := json.Unmarshal(data, &answer); err != nil || len(answer.Signed) == 0 {
		return nil, errors.Join(errors.New("the answer has no signature"), err)
	}
	return answer.Signed, nil
}
