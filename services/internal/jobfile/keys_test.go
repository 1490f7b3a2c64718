package jobfile

import (
	"strings"
	"testing"
)

func TestEveryRowOfTheTableIsWhole(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, k := range table() {
		if seen[k.path] {
			t.Errorf("%s stands twice", k.path)
		}
		seen[k.path] = true
		if p := parent(k.path); p != "" && !seen[p] {
			t.Errorf("%s stands before %s", k.path, p)
		}
		switch k.verdict {
		case reads:
			if k.read == nil || k.why != "" || k.remedy != "" {
				t.Errorf("%s is read: it needs a reader and no reason", k.path)
			}
		case warns, refuses:
			if k.read != nil || k.why == "" || k.remedy == "" {
				t.Errorf("%s is %s: it needs a reason, a remedy and no reader", k.path, k.verdict)
			}
		default:
			t.Errorf("%s has verdict %q", k.path, k.verdict)
		}
	}
}

// What SkyPilot 0.12 documents, and what its schema takes besides.
const skypilot = `
name workdir num_nodes resources envs secrets managed_secrets volumes volume_mounts file_mounts file_mounts_mapping
setup run config service pool inputs outputs event_callback api_server_access
resources.infra resources.cloud resources.region resources.zone resources.accelerators resources.accelerator_args
resources.cpus resources.memory resources.instance_type resources.use_spot resources.disk_size resources.disk_tier
resources.network_tier resources.local_disk resources.ephemeral_storage resources.max_hourly_cost resources.ports
resources.image_id resources.labels resources.any_of resources.ordered resources.job_recovery resources.autostop
resources.priority resources.priority_class resources.volumes
resources.job_recovery.strategy resources.job_recovery.max_restarts_on_errors resources.job_recovery.recover_on_exit_codes
config.hooks`

func TestEveryKeyOfSkyPilotHasARow(t *testing.T) {
	t.Parallel()
	known := map[string]bool{}
	for _, k := range Keys() {
		known[k.Path] = true
	}
	for _, path := range strings.Fields(skypilot) {
		if !known[path] {
			t.Errorf("%s would be called unknown", path)
		}
	}
}

func TestEditsCountsWhatAHandMistypes(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		a, b string
		want int
	}{
		{"budget", "budget", 0}, {"budgte", "budget", 1}, {"budge", "budget", 1}, {"buddget", "budget", 1},
		{"bidget", "budget", 1}, {"", "abc", 3}, {"abc", "", 3}, {strings.Repeat("a", 100), "a", 40},
	} {
		if got := edits(tc.a, tc.b); got != tc.want {
			t.Errorf("edits(%q, %q) = %d, want %d", tc.a, tc.b, got, tc.want)
		}
	}
}
