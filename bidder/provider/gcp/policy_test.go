package gcp_test

import (
	"os"
	"slices"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/bidder/provider/gcp"
)

// The role in deploy/policies allows everything that the adapter does, and hardly
// anything that it does not do.
func TestTheRoleIsWhatIsNeeded(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("../../../deploy/policies/gcp.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var role struct {
		Permissions []string `yaml:"includedPermissions"`
	}
	if err := yaml.Unmarshal(b, &role); err != nil {
		t.Fatal(err)
	}
	p := open(t, world{early: 1, change: func(c *gcp.Config) { c.Advice = true }})
	if _, err := p.client.Offers(t.Context()); err != nil {
		t.Fatal(err)
	}
	token := p.token()
	i := p.buy(token)
	until(t, p.client, token, provider.Running)
	if err := p.client.Terminate(t.Context(), i.ID); err != nil {
		t.Fatal(err)
	}
	until(t, p.client, token, provider.Gone)
	used := p.fake.Permissions()
	for _, need := range used {
		if !slices.Contains(role.Permissions, need) {
			t.Errorf("the adapter needs %s, which the role does not have", need)
		}
	}
	for _, have := range role.Permissions {
		// Which image is somebody's own, a fake cannot know.
		if !slices.Contains(used, have) && have != "compute.images.useReadOnly" {
			t.Errorf("the role has %s, which nothing needs", have)
		}
	}
	if len(used) < 16 {
		t.Errorf("only %d permissions were used: %v", len(used), used)
	}
}
