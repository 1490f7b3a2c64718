// Provider-runpod sells what RunPod's data centres have. The key of the account is in RUNPOD_API_KEY.
package main

import (
	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/bidder/provider/runpod"
	"github.com/spotferry/spotferry/services/internal/process"
	"github.com/spotferry/spotferry/services/internal/programs"
)

func main() {
	programs.MainSeller(programs.Seller{
		Name: "provider-runpod", Purpose: "sells what RunPod's data centres have, on demand (its key is in RUNPOD_API_KEY)", Flags: flags,
	})
}

func flags(f *process.Flags) func(programs.Ground) (provider.Provider, error) {
	var c runpod.Config
	f.StringVar(&c.Endpoint, "endpoint", "", "URL of the API; \"\": RunPod's")
	f.StringVar(&c.Image, "image", "", "container image that pods run")
	f.StringVar(&c.Args, "args", "", "of the image's entrypoint")
	f.IntVar(&c.DiskGB, "disk-gb", 0, "disk of a pod; 0: 40")
	f.StringSliceVar(&c.DataCentres, "data-centres", nil, "to buy in, such as EU-RO-1")
	f.IntSliceVar(&c.Counts, "gpus", nil, "how many GPUs a pod may have; none: 1, 2, 4 and 8")
	f.BoolVar(&c.Spot, "spot", false, "sell interruptible pods too, where there is a lowest bid")
	return func(g programs.Ground) (provider.Provider, error) {
		c.Seller, c.Mark, c.Now, c.Log, c.Key = g.Seller, g.Mark, g.Now, g.Log, g.Getenv("RUNPOD_API_KEY")
		return runpod.New(c)
	}
}
