package gcp_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/spotferry/spotferry/bidder/provider/gcp"
)

var (
	rfc1035 = regexp.MustCompile(`^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$`)
	uuid5   = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-5[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
)

// Different tokens and environments never share a name or a request, and the same
// always do.
func TestNamesAreValidAndUnique(t *testing.T) {
	t.Parallel()
	token := rapid.StringMatching(`[a-z0-9_-]{1,64}`)
	mark := rapid.StringMatching(`[a-zA-Z0-9 ü./_-]{1,80}`)
	rapid.Check(t, func(t *rapid.T) {
		a, b, m, n := token.Draw(t, "token"), token.Draw(t, "other token"), mark.Draw(t, "mark"), mark.Draw(t, "other mark")
		name, id := gcp.NameOf(m, a), gcp.RequestIDOf("p", m, a)
		if !rfc1035.MatchString(name) || !uuid5.MatchString(id) {
			t.Fatalf("token %q has the name %q and the request %q", a, name, id)
		}
		if name != gcp.NameOf(m, a) || id != gcp.RequestIDOf("p", m, a) {
			t.Fatal("the same token has two names")
		}
		same := a == b && m == n
		if (gcp.NameOf(n, b) == name) != same || (gcp.RequestIDOf("p", n, b) == id) != same {
			t.Fatalf("%q of %q and %q of %q: same %v, names %q", a, m, b, n, same, name)
		}
	})
	if name := gcp.NameOf("prod", "01jabcdefghjkmnpqrstvwxyz0-12-3"); !strings.HasSuffix(name, "-01jabcdefghjkmnpqrstvwxyz0-12-3") {
		t.Errorf("a lease's name %q does not tell its token", name)
	}
}

func TestAConfigurationSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	good := gcp.Config{Project: "my-project", Mark: "m", Image: "i", AccessToken: "t", Now: now}
	if _, err := gcp.New(good); err != nil {
		t.Errorf("New = %v", err)
	}
	for _, tc := range []struct {
		field  string
		change func(*gcp.Config)
	}{
		{"Project", func(c *gcp.Config) { c.Project = "My Project/.." }},
		{"Mark", func(c *gcp.Config) { c.Mark = "" }},
		{"Image", func(c *gcp.Config) { c.Image = "" }},
		{"Network", func(c *gcp.Config) { c.Network, c.Subnetwork = "a", "b" }},
		{"DiskGB", func(c *gcp.Config) { c.DiskGB = -1 }},
		{"Compute", func(c *gcp.Config) { c.Compute = "compute.googleapis.com" }},
		{"Billing", func(c *gcp.Config) { c.Billing = "https://user:secret@host/" }},
		{"MaxRun", func(c *gcp.Config) { c.MaxRun = time.Second }},
		{"NoticeLead", func(c *gcp.Config) { c.NoticeLead = -1 }},
		{"Reread", func(c *gcp.Config) { c.Reread = -1 }},
		{"Pause", func(c *gcp.Config) { c.Pause = -1 }},
		{"Now", func(c *gcp.Config) { c.Now = nil }},
	} {
		t.Run(tc.field, func(t *testing.T) {
			t.Parallel()
			cfg := good
			tc.change(&cfg)
			if _, err := gcp.New(cfg); err == nil || !strings.Contains(err.Error(), tc.field+" ") {
				t.Errorf("New = %v, want %s and what to give", err, tc.field)
			}
		})
	}
}
