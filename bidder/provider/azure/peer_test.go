package azure

import (
	"context"
	"net/http"
	"testing"
	"time"

	azfake "github.com/Azure/azure-sdk-for-go/sdk/azcore/fake"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v6"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v6/fake"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/bidder/provider/providertest"
)

// server is Azure's own fake of its virtual machines, as a transport.
type server struct {
	*fake.VirtualMachinesServerTransport
}

// RoundTrip implements http.RoundTripper.
func (s server) RoundTrip(r *http.Request) (*http.Response, error) { return s.Do(r) }

// A creation against the fake that comes with Azure's client, which nobody here
// wrote: it is accepted, fails later, and is deleted by name.
func TestAgainstAzuresOwnFake(t *testing.T) {
	t.Parallel()
	var created, deleted []string
	machines := fake.VirtualMachinesServer{
		Get: func(context.Context, string, string, *armcompute.VirtualMachinesClientGetOptions) (resp azfake.Responder[armcompute.VirtualMachinesClientGetResponse], err azfake.ErrorResponder) {
			err.SetResponseError(http.StatusNotFound, "ResourceNotFound")
			return
		},
		BeginCreateOrUpdate: func(_ context.Context, _, name string, _ armcompute.VirtualMachine, _ *armcompute.VirtualMachinesClientBeginCreateOrUpdateOptions) (resp azfake.PollerResponder[armcompute.VirtualMachinesClientCreateOrUpdateResponse], err azfake.ErrorResponder) {
			created = append(created, name)
			resp.AddNonTerminalResponse(http.StatusCreated, nil)
			resp.SetTerminalError(http.StatusConflict, "AllocationFailed")
			return
		},
		BeginDelete: func(_ context.Context, _, name string, _ *armcompute.VirtualMachinesClientBeginDeleteOptions) (resp azfake.PollerResponder[armcompute.VirtualMachinesClientDeleteResponse], err azfake.ErrorResponder) {
			deleted = append(deleted, name)
			resp.SetTerminalResponse(http.StatusNoContent, armcompute.VirtualMachinesClientDeleteResponse{}, nil)
			return
		},
	}
	cfg := config(t, "https://management.azure.com")
	cfg.Client = &http.Client{Transport: server{fake.NewVirtualMachinesServerTransport(&machines)}}
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	c.catalog.keep([]quote{{spot, 0}}, time.Now())
	_, err = c.Launch(t.Context(), providertest.SampleSpec(spot), "t-1")
	if e := kindOf(t, err, provider.NoCapacity); e.Code != "AllocationFailed" || e.MaybeCreated {
		t.Errorf("%+v; want AllocationFailed, and surely no machine", e)
	}
	if len(created) != 1 || len(deleted) != 1 || created[0] != c.names.Of("t-1") || deleted[0] != created[0] {
		t.Errorf("created %v, deleted %v; want one and the same", created, deleted)
	}
}
