// Provider-lambda sells what Lambda Cloud has. The key of the account is in LAMBDA_API_KEY.
package main

import (
	"os"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/bidder/provider/lambda"
	"github.com/spotferry/spotferry/services/internal/process"
	"github.com/spotferry/spotferry/services/internal/programs"
)

func main() {
	programs.MainSeller(programs.Seller{
		Name: "provider-lambda", Purpose: "sells what Lambda Cloud has, on demand (its key is in LAMBDA_API_KEY)", Flags: flags,
	})
}

func flags(f *process.Flags) func(programs.Ground) (provider.Provider, error) {
	var c lambda.Config
	f.StringVar(&c.Endpoint, "endpoint", "", "URL of the API; \"\": Lambda's")
	f.StringVar(&c.SSHKey, "ssh-key", "", "name of a key that the account has; Lambda launches nothing without one")
	f.StringSliceVar(&c.Regions, "regions", nil, "to buy in; none: everywhere")
	cloudConfig := f.String("cloud-config", "", "file with what is added to the cloud-config of machines")
	return func(g programs.Ground) (provider.Provider, error) {
		if *cloudConfig != "" {
			b, err := os.ReadFile(*cloudConfig)
			if err != nil {
				return nil, err
			}
			c.CloudConfig = string(b)
		}
		c.Seller, c.Mark, c.Now, c.Log, c.Key = g.Seller, g.Mark, g.Now, g.Log, g.Getenv("LAMBDA_API_KEY")
		return lambda.New(c)
	}
}
