// Provider-azure sells Azure's virtual machines. It is the only program with the
// subscription's credentials, which it finds where Azure's own programs do: in AZURE_TENANT_ID,
// AZURE_CLIENT_ID and AZURE_CLIENT_SECRET or AZURE_FEDERATED_TOKEN_FILE, from the
// machine that it runs on, or from az's login.
package main

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/bidder/provider/azure"
	"github.com/spotferry/spotferry/services/internal/process"
	"github.com/spotferry/spotferry/services/internal/programs"
)

func main() {
	programs.MainSeller(programs.Seller{Name: "provider-azure", Purpose: "sells Azure's virtual machines", Flags: flags})
}

func flags(f *process.Flags) func(programs.Ground) (provider.Provider, error) {
	var cfg azure.Config
	var keyFile string
	f.StringVar(&cfg.Subscription, "subscription", "", "id of the subscription that pays; \"\": AZURE_SUBSCRIPTION_ID")
	f.StringVar(&cfg.ResourceGroup, "resource-group", "", "resource group of the machines")
	f.StringSliceVar(&cfg.Regions, "regions", nil, "regions to buy in, such as eastus")
	f.StringVar(&cfg.Image, "image", "", "disk image with the GPU's driver, by its id (%s becomes the region) or as publisher:offer:sku:version")
	f.StringVar(&cfg.Subnet, "subnet", "", "id of the subnet of the machines; %s becomes the region")
	f.BoolVar(&cfg.Public, "public", false, "machines have an address of their own to the outside")
	f.StringVar(&cfg.Admin, "machine-user", "", "user on the machines; \"\": spotferry")
	f.StringVar(&keyFile, "ssh-key-file", "", "file with that user's public key, which Azure wants of every machine")
	f.IntVar(&cfg.DiskGB, "disk-gb", 128, "size of the system disk")
	f.StringVar(&cfg.DiskType, "disk-type", "Premium_LRS", "type of the system disk")
	f.DurationVar(&cfg.Reread, "reread", time.Hour, "how long sizes and prices are believed")
	f.StringVar(&cfg.Endpoint, "endpoint", "", "base of the Resource Manager; \"\": Azure's")
	f.StringVar(&cfg.Prices, "prices-endpoint", "", "base of the retail prices; \"\": Azure's")
	return func(g programs.Ground) (provider.Provider, error) {
		cfg.Seller, cfg.Mark, cfg.Now, cfg.Log = g.Seller, g.Mark, g.Now, g.Log
		if cfg.Subscription == "" {
			cfg.Subscription = g.Getenv("AZURE_SUBSCRIPTION_ID")
		}
		if keyFile != "" {
			key, err := os.ReadFile(keyFile)
			if err != nil {
				return nil, fmt.Errorf("reading --ssh-key-file: %w", err)
			}
			cfg.SSHKey = strings.TrimSpace(string(key))
		}
		credential, err := azidentity.NewDefaultAzureCredential(nil)
		if err != nil {
			return nil, fmt.Errorf("azure: no credentials: set AZURE_TENANT_ID, AZURE_CLIENT_ID and AZURE_CLIENT_SECRET, or log in with az: %w", err)
		}
		cfg.Credential = credential
		return azure.New(cfg)
	}
}
