package azure

import (
	"encoding/json"
	"os"
	"slices"
	"testing"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/bidder/provider/azure/azurefake"
)

// The role in deploy/policies allows everything that the adapter does, and hardly
// anything that it does not do.
func TestTheRoleIsWhatIsNeeded(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("../../../deploy/policies/azure.json")
	if err != nil {
		t.Fatal(err)
	}
	var role struct {
		IsCustom         bool
		Actions          []string
		NotActions       []string
		DataActions      []string
		AssignableScopes []string
	}
	if err := json.Unmarshal(b, &role); err != nil || !role.IsCustom || len(role.AssignableScopes) == 0 || len(role.NotActions)+len(role.DataActions) > 0 {
		t.Fatalf("%+v, %v", role, err)
	}
	r := newRig(t, azurefake.Config{})
	if _, err := r.client.Offers(t.Context()); err != nil {
		t.Fatal(err)
	}
	i := r.buy("t-1")
	until(t, r.client, "t-1", provider.Running)
	if err := r.client.Terminate(t.Context(), i.ID); err != nil {
		t.Fatal(err)
	}
	until(t, r.client, "t-1", provider.Gone)
	used := r.fake.Permissions()
	for _, need := range used {
		if !slices.Contains(role.Actions, need) {
			t.Errorf("the adapter needs %s, which the role does not have", need)
		}
	}
	// What image is somebody's own, and whether a machine has an address of its own, is
	// for the configuration to say.
	beyond := []string{
		"Microsoft.Compute/galleries/images/versions/read", "Microsoft.Compute/images/read",
		"Microsoft.Network/publicIPAddresses/write", "Microsoft.Network/publicIPAddresses/join/action", "Microsoft.Network/publicIPAddresses/delete",
	}
	for _, have := range role.Actions {
		if !slices.Contains(used, have) && !slices.Contains(beyond, have) {
			t.Errorf("the role has %s, which nothing needs", have)
		}
	}
	if len(used) < 12 {
		t.Errorf("only %d permissions were used: %v", len(used), used)
	}
}
