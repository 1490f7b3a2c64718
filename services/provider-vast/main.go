// Provider-vast sells what Vast.ai's hosts offer. The key of the account is in VAST_API_KEY.
package main

import (
	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/bidder/provider/vast"
	"github.com/spotferry/spotferry/services/internal/process"
	"github.com/spotferry/spotferry/services/internal/programs"
)

func main() {
	programs.MainSeller(programs.Seller{
		Name: "provider-vast", Purpose: "sells what Vast.ai's hosts offer, on demand and for bids (its key is in VAST_API_KEY)", Flags: flags,
	})
}

func flags(f *process.Flags) func(programs.Ground) (provider.Provider, error) {
	var c vast.Config
	f.StringVar(&c.Endpoint, "endpoint", "", "URL of the API; \"\": Vast.ai's")
	f.StringVar(&c.Image, "image", "", "container image that machines run")
	f.StringVar(&c.Onstart, "onstart", "", "script that machines run when they have started")
	f.IntVar(&c.DiskGB, "disk-gb", 0, "disk of a machine, fixed for its life; 0: 32")
	f.BoolVar(&c.Unverified, "unverified", false, "also machines that Vast.ai has not verified")
	f.BoolVar(&c.DataCentre, "data-centre", false, "only machines of data centres")
	f.IntVar(&c.BidOverPct, "bid-over-percent", 0, "how far above the lowest bid that runs we bid; a bid is paid as it is")
	return func(g programs.Ground) (provider.Provider, error) {
		c.Seller, c.Mark, c.Now, c.Log, c.Key = g.Seller, g.Mark, g.Now, g.Log, g.Getenv("VAST_API_KEY")
		return vast.New(c)
	}
}
