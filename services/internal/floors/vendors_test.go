package floors

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// sdks are the vendors' own libraries: large, slow to build, and of no use to who
// has no keys.
var sdks = []string{"github.com/aws/", "github.com/Azure/azure-sdk-for-go", "google.golang.org/api", "cloud.google.com/go"}

// mayLink are the programs that need them: a seller's own, and the gateway, which
// signs requests to stores.
func mayLink(program string) bool {
	return strings.HasPrefix(program, "provider-") && program != "provider-local" || program == "gateway"
}

// TestVendorsStayInTheirPrograms: neither the first command that a newcomer runs
// nor what runs on a machine links a vendor's SDK.
func TestVendorsStayInTheirPrograms(t *testing.T) {
	t.Parallel()
	look(t)
	var programs []string
	for _, p := range tree(t) {
		if name, ok := strings.CutPrefix(p.ImportPath, module+"/services/"); ok && !strings.Contains(name, "/") {
			programs = append(programs, name)
		}
	}
	if !slices.Contains(programs, "spotferry") || !slices.Contains(programs, "agent") {
		t.Fatalf("go list found the programs %v", programs)
	}
	for _, name := range programs {
		out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", module+"/services/"+name).Output()
		if err != nil {
			t.Fatalf("go list -deps of %s: %v", name, err)
		}
		for _, sdk := range sdks {
			if strings.Contains(string(out), "\n"+sdk) && !mayLink(name) {
				t.Errorf("%s links %s", name, sdk)
			}
		}
	}
}
