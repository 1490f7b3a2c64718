package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/config"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/bidder/provider/aws"
	"github.com/spotferry/spotferry/services/internal/process"
	"github.com/spotferry/spotferry/services/internal/programs"
)

// options are what the program is told of the account.
type options struct {
	regions, groups, subnets, queues, countries []string
	types                                       []string
	prices                                      string
	aws.Config
}

// flags declares them. What is of a region is written region=value.
func flags(f *process.Flags) func(programs.Ground) (provider.Provider, error) {
	var o options
	f.StringSliceVar(&o.regions, "region", nil, "region and the machine image there: us-east-1=ami-0123; several, or again")
	f.StringSliceVar(&o.groups, "security-group", nil, "region and a security group of new machines: us-east-1=sg-0123; several, or again")
	f.StringSliceVar(&o.subnets, "subnet", nil, "region, zone id and subnet: us-east-1=use1-az4=subnet-0123; zones without one use the default subnet")
	f.StringSliceVar(&o.queues, "queue", nil, "region and the URL of the queue that interruption warnings are sent to")
	f.StringSliceVar(&o.countries, "country", nil, "region and the country it lies in, for regions that are newer than this program: ap-new-1=NZ")
	f.StringSliceVar(&o.types, "instance-type", nil, "instance types that are looked at; none: all that have a GPU")
	f.StringVar(&o.prices, "on-demand-prices", "", "bulk price file of AmazonEC2 in CSV; \"\": only spot is offered")
	f.StringVar(&o.Arch, "arch", "x86_64", "architecture of the images")
	f.StringVar(&o.RootDevice, "root-device", "", "root device of the images, such as /dev/sda1, to give it --disk-gb; \"\": as large as the image says")
	f.IntVar(&o.DiskGB, "disk-gb", 100, "disk of a machine")
	f.StringVar(&o.Driver, "driver", "", "version of the images' GPU driver")
	f.StringVar(&o.CUDA, "cuda", "", "newest CUDA that the driver runs, such as 12.8")
	f.BoolVar(&o.Scores, "scores", false, "ask once an hour how likely a spot launch succeeds")
	f.DurationVar(&o.OfferTTL, "offer-ttl", 5*time.Minute, "how long an offer may be bought")
	f.StringVar(&o.Endpoint, "endpoint", "", "address in place of EC2's")
	f.StringVar(&o.QueueEndpoint, "queue-endpoint", "", "address in place of SQS's")
	return func(g programs.Ground) (provider.Provider, error) { return o.open(g) }
}

func (o options) open(g programs.Ground) (provider.Provider, error) {
	cfg := o.Config
	cfg.Seller, cfg.Mark, cfg.Now, cfg.Log, cfg.Types = g.Seller, g.Mark, g.Now, g.Log, o.types
	var err error
	if cfg.Regions, err = o.places(); err != nil {
		return nil, err
	}
	if o.prices != "" {
		if cfg.OnDemand, err = aws.ReadCatalogueFile(o.prices); err != nil {
			return nil, err
		}
	}
	// The keys are read anew as they expire, for as long as the program runs.
	account, err := config.LoadDefaultConfig(context.Background(), config.WithRegion(cfg.Regions[0].Name))
	if err != nil {
		return nil, fmt.Errorf("finding the account's keys: %w", err)
	}
	cfg.Credentials = account.Credentials
	return aws.New(cfg)
}

// places are the regions with what was said of each.
func (o options) places() ([]aws.Region, error) {
	var out []aws.Region
	at := map[string]int{}
	for _, text := range o.regions {
		name, image, ok := strings.Cut(text, "=")
		if !ok {
			return nil, fmt.Errorf("--region %q: write region=image: %w", text, process.ErrUsage)
		}
		at[name] = len(out)
		out = append(out, aws.Region{Name: name, Image: image, Subnets: map[string]string{}})
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("--region is missing: name at least one, with its image: %w", process.ErrUsage)
	}
	each := func(flag string, texts []string, put func(*aws.Region, string) bool) error {
		for _, text := range texts {
			name, value, _ := strings.Cut(text, "=")
			n, known := at[name]
			if !known || value == "" || !put(&out[n], value) {
				return fmt.Errorf("--%s %q: write region=…, of a region that --region names: %w", flag, text, process.ErrUsage)
			}
		}
		return nil
	}
	if err := each("security-group", o.groups, func(r *aws.Region, v string) bool { r.SecurityGroups = append(r.SecurityGroups, v); return true }); err != nil {
		return nil, err
	}
	if err := each("country", o.countries, func(r *aws.Region, v string) bool { r.Country = v; return true }); err != nil {
		return nil, err
	}
	if err := each("queue", o.queues, func(r *aws.Region, v string) bool { r.Queue = v; return true }); err != nil {
		return nil, err
	}
	return out, each("subnet", o.subnets, func(r *aws.Region, v string) bool {
		zone, subnet, ok := strings.Cut(v, "=")
		r.Subnets[zone] = subnet
		return ok
	})
}
