package azure_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/spotferry/spotferry/checkpoint"
	"github.com/spotferry/spotferry/checkpoint/store/azure"
)

// TestErrorsByMeaning: what a service's answer means, and that none is asked for twice.
func TestErrorsByMeaning(t *testing.T) {
	t.Parallel()
	known := []error{checkpoint.ErrNotFound, checkpoint.ErrExists, checkpoint.ErrNoSpace, checkpoint.ErrCorrupt, checkpoint.ErrRefused}
	for _, tc := range []struct {
		name   string
		status int
		code   string
		want   error // nil: none of the contract's
	}{
		{"a blob that is missing", 404, "BlobNotFound", checkpoint.ErrNotFound},
		{"a container that is missing proves nothing", 404, "ContainerNotFound", checkpoint.ErrRefused},
		{"nor does one that is on its way out", 409, "ContainerBeingDeleted", nil},
		{"a name that is taken", 409, "BlobAlreadyExists", checkpoint.ErrExists},
		{"a name that is taken, by the condition", 412, "ConditionNotMet", checkpoint.ErrExists},
		{"a name that is taken, by the permission", 403, "UnauthorizedBlobOverwrite", checkpoint.ErrExists},
		{"a range behind the end", 416, "InvalidRange", checkpoint.ErrCorrupt},
		{"rights that are missing", 403, "AuthorizationPermissionMismatch", checkpoint.ErrRefused},
		{"a body that was damaged on its way", 400, "Md5Mismatch", nil},
		{"too many requests", 503, "ServerBusy", nil},
		{"an error of the service", 500, "InternalError", nil},
		{"an account that is full", 507, "", checkpoint.ErrNoSpace},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var requests atomic.Int32
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				requests.Add(1)
				_, _ = io.Copy(io.Discard, r.Body)
				w.Header().Set("X-Ms-Error-Code", tc.code)
				w.WriteHeader(tc.status)
			}))
			t.Cleanup(server.Close)
			store := open(t, azure.Config{Account: "a", Key: key, Endpoint: server.URL, Container: "c"})
			check := func(what string, err error) {
				t.Helper()
				if n := requests.Swap(0); n != 1 || err == nil {
					t.Errorf("%s = %v after %d requests", what, err, n)
				}
				for _, k := range known {
					if errors.Is(err, k) != (k == tc.want) {
						t.Errorf("%s = %v, want %v", what, err, tc.want)
					}
				}
			}
			check("Put", store.Put(t.Context(), "v1/a", strings.NewReader("x"), 1))
			_, err := store.Get(t.Context(), "v1/a")
			check("Get", err)
			_, err = store.Stat(t.Context(), "v1/a")
			check("Stat", err)
			_, err = store.List(t.Context(), "v1/")
			check("List", err)
		})
	}
}
