package gcp_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/spotferry/spotferry/bidder/provider/providertest"
	"github.com/spotferry/spotferry/events"
)

// What is sent when a machine is bought, as Google reads it.
func TestWhatIsSentForAMachine(t *testing.T) {
	t.Parallel()
	n1 := a100("us-central1-a", events.Spot, 300_000_000)
	n1.Pool.InstanceType, n1.VCPU, n1.RAMMiB, n1.GPU.Model = "n1-standard-8+1xt4", 8, 30<<10, "T4"
	p := open(t, world{offers: []events.Offer{n1, a100("europe-west4-a", events.OnDemand, 3_700_000_000), a100("us-central1-a", events.Spot, 1_100_000_000)}})
	p.configs.MaxRun, p.configs.NoticeLead = 48*time.Hour, time.Minute
	p.configs.Subnetwork, p.configs.Internal, p.configs.ServiceAccount = "regions/%s/subnetworks/gpus", true, "sa@my-project.iam.gserviceaccount.com"
	type body struct {
		MachineType string
		Labels      map[string]string
		Metadata    struct{ Items []struct{ Key, Value string } }
		Scheduling  struct {
			ProvisioningModel, InstanceTerminationAction, OnHostMaintenance string
			AutomaticRestart                                                *bool
			MaxRunDuration, PreemptionNoticeDuration                        *struct{ Seconds string }
		}
		GuestAccelerators []struct {
			AcceleratorType  string
			AcceleratorCount int
		}
		Disks []struct {
			AutoDelete, Boot bool
			InitializeParams struct{ DiskSizeGb, SourceImage, DiskType string }
		}
		NetworkInterfaces []struct {
			Network, Subnetwork string
			AccessConfigs       []any
		}
		ServiceAccounts []struct{ Email string }
	}
	var sent body
	spy := func(r *http.Request) bool {
		if r.Method == http.MethodPost && r.URL.Query().Get("requestId") != "" {
			b, err := io.ReadAll(r.Body)
			if err != nil || json.Unmarshal(b, &sent) != nil {
				t.Errorf("an insertion of %s, %v", b, err)
			}
			r.Body = io.NopCloser(bytes.NewReader(b))
		}
		return false
	}
	c := twisted(t, p, spy, nil)
	for _, tc := range []struct {
		name        string
		offer       events.Offer
		machine     string
		model       string
		accelerator string
		region      string
	}{
		{"spot with GPUs of its own", a100("us-central1-a", events.Spot, 1), "zones/us-central1-a/machineTypes/a2-highgpu-1g", "SPOT", "", "us-central1"},
		{"spot with a GPU attached", n1, "zones/us-central1-a/machineTypes/n1-standard-8", "SPOT", "zones/us-central1-a/acceleratorTypes/nvidia-tesla-t4", "us-central1"},
		{"on demand", a100("europe-west4-a", events.OnDemand, 1), "zones/europe-west4-a/machineTypes/a2-highgpu-1g", "STANDARD", "", "europe-west4"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			sent = body{}
			spec := providertest.SampleSpec(tc.offer)
			spec.MaxPrice = 9 * events.DollarPerHour
			token := p.token()
			i, err := c.Launch(t.Context(), spec, token)
			if err != nil || i.Pool != tc.offer.Pool {
				t.Fatalf("Launch = %+v, %v", i, err)
			}
			s := sent.Scheduling
			if sent.MachineType != tc.machine || s.ProvisioningModel != tc.model || s.OnHostMaintenance != "TERMINATE" || s.AutomaticRestart == nil || *s.AutomaticRestart {
				t.Errorf("sent %+v", sent)
			}
			if s.InstanceTerminationAction != "DELETE" || s.MaxRunDuration == nil || s.MaxRunDuration.Seconds != "172800" || (s.PreemptionNoticeDuration != nil) != (tc.model == "SPOT") {
				t.Errorf("scheduling %+v", s)
			}
			if (len(sent.GuestAccelerators) == 1) != (tc.accelerator != "") || tc.accelerator != "" && (sent.GuestAccelerators[0].AcceleratorType != tc.accelerator || sent.GuestAccelerators[0].AcceleratorCount != 1) {
				t.Errorf("accelerators %+v", sent.GuestAccelerators)
			}
			if len(sent.Disks) != 1 || !sent.Disks[0].AutoDelete || !sent.Disks[0].Boot || sent.Disks[0].InitializeParams.DiskSizeGb != "100" {
				t.Errorf("disks %+v", sent.Disks)
			}
			if n := sent.NetworkInterfaces; len(n) != 1 || n[0].Network != "" || n[0].Subnetwork != "regions/"+tc.region+"/subnetworks/gpus" || n[0].AccessConfigs != nil {
				t.Errorf("network %+v", n)
			}
			if len(sent.ServiceAccounts) != 1 || sent.Metadata.Items[0].Key != "user-data" || sent.Metadata.Items[0].Value != string(spec.UserData) || sent.Labels["spotferry-token"] != token {
				t.Errorf("sent %+v", sent)
			}
		})
	}
}
