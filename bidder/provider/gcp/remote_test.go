package gcp_test

import (
	"testing"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/bidder/provider/providertest"
	"github.com/spotferry/spotferry/bidder/provider/remote/remotetest"
)

// The contract once more, with the adapter in another process, as it is but in tests.
func TestKeepsTheContractOverNATS(t *testing.T) {
	t.Parallel()
	providertest.Run(t, func(t *testing.T) providertest.Harness {
		p := open(t, world{})
		h := p.harness()
		h.Seller = remotetest.Far(t, "gcp", provider.Typed(p.client))
		return h
	})
}
