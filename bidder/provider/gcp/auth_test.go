package gcp_test

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/bidder/provider/gcp"
)

// credentialsFile is a service account's key, whose tokens come from server.
func credentialsFile(t *testing.T, server string) string {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(map[string]string{
		"type": "service_account", "project_id": "my-project", "private_key_id": "k", "client_id": "1",
		"client_email": "seller@my-project.iam.gserviceaccount.com", "token_uri": server,
		"private_key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})),
	})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "key.json")
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// The keys are found where Google's own programs look, and what is wrong with them is
// told apart from what is wrong with Google.
func TestKeysAreFoundAndExchanged(t *testing.T) {
	for _, tc := range []struct {
		name   string
		status int
		body   string
		kind   provider.Kind // of a launch
		works  bool
	}{
		{"a good key", 200, `{"access_token":"ya29.secret","expires_in":3600,"token_type":"Bearer"}`, 0, true},
		{"a key that was revoked", 400, `{"error":"invalid_grant","error_description":"Invalid JWT Signature."}`, provider.Auth, false},
		{"an account that was deleted", 401, `{"error":"invalid_client"}`, provider.Auth, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tokens := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(tc.status)
				_, _ = w.Write([]byte(tc.body))
			}))
			defer tokens.Close()
			defer http.DefaultTransport.(*http.Transport).CloseIdleConnections()
			t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", credentialsFile(t, tokens.URL))
			p := open(t, world{change: func(c *gcp.Config) { c.AccessToken = "" }})
			_, err := p.client.Launch(t.Context(), p.spec(), p.token())
			if tc.works {
				if err != nil {
					t.Errorf("Launch = %v", err)
				}
				return
			}
			e, ok := errors.AsType[*provider.Error](err)
			if !ok || e.Kind != tc.kind || e.MaybeCreated || strings.Contains(err.Error(), "PRIVATE KEY") {
				t.Errorf("Launch = %+v", err)
			}
		})
	}
	t.Run("no key at all", func(t *testing.T) {
		t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", filepath.Join(t.TempDir(), "nothing.json"))
		_, err := gcp.New(gcp.Config{Project: "my-project", Mark: "m", Image: "i", Now: now})
		if err == nil || !strings.Contains(err.Error(), "GOOGLE_APPLICATION_CREDENTIALS") {
			t.Errorf("New = %v, want what to set", err)
		}
	})
}
