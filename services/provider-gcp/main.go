// Provider-gcp sells machines of Google's Compute Engine. It is the only program
// with the project's credentials, which it finds where Google's own programs do:
// in the file that GOOGLE_APPLICATION_CREDENTIALS names, in gcloud's directory, or from
// the machine that it runs on. CLOUDSDK_AUTH_ACCESS_TOKEN is a token to use instead.
package main

import (
	"time"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/bidder/provider/gcp"
	"github.com/spotferry/spotferry/services/internal/process"
	"github.com/spotferry/spotferry/services/internal/programs"
)

func main() {
	programs.MainSeller(programs.Seller{Name: "provider-gcp", Purpose: "sells machines of Google's Compute Engine", Flags: flags})
}

func flags(f *process.Flags) func(programs.Ground) (provider.Provider, error) {
	var cfg gcp.Config
	f.StringVar(&cfg.Project, "project", "", "id of the project that pays; \"\": GOOGLE_CLOUD_PROJECT")
	f.StringSliceVar(&cfg.Regions, "regions", nil, "regions to buy in; none: all")
	f.StringVar(&cfg.Image, "image", "", "boot image with the GPU's driver, as projects/P/global/images/family/F")
	f.IntVar(&cfg.DiskGB, "disk-gb", 100, "size of the boot disk")
	f.StringVar(&cfg.DiskType, "disk-type", "pd-balanced", "type of the boot disk")
	f.StringVar(&cfg.Network, "network", "", "network of the machines, as global/networks/N; \"\": the project's default")
	f.StringVar(&cfg.Subnetwork, "subnetwork", "", "subnetwork instead, as regions/%s/subnetworks/N: %s becomes the region")
	f.BoolVar(&cfg.Internal, "internal", false, "machines have no address to the outside: the network has another way out")
	f.StringVar(&cfg.ServiceAccount, "service-account", "", "e-mail of the account that machines act as; \"\": none")
	f.DurationVar(&cfg.MaxRun, "max-run", 0, "time after which Google deletes a machine whatever happens here; 0: never")
	f.DurationVar(&cfg.NoticeLead, "notice-lead", 0, "warning of a preemption to ask for, before its thirty seconds")
	f.BoolVar(&cfg.Advice, "advice", false, "ask how likely each spot pool is to have a machine")
	f.DurationVar(&cfg.Reread, "reread", time.Hour, "how long machine types and prices are believed")
	f.StringVar(&cfg.Compute, "compute-endpoint", "", "base of the Compute Engine API; \"\": Google's")
	f.StringVar(&cfg.Billing, "billing-endpoint", "", "base of the Cloud Billing API; \"\": Google's")
	return func(g programs.Ground) (provider.Provider, error) {
		cfg.Seller, cfg.Mark, cfg.Now, cfg.Log = g.Seller, g.Mark, g.Now, g.Log
		cfg.AccessToken = g.Getenv("CLOUDSDK_AUTH_ACCESS_TOKEN")
		if cfg.Project == "" {
			cfg.Project = g.Getenv("GOOGLE_CLOUD_PROJECT")
		}
		return gcp.New(cfg)
	}
}
