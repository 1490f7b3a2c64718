package aws

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/smithy-go/middleware"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/events"
)

// Client is one account of EC2. It is safe for concurrent use, has no goroutine
// of its own between calls, and what it remembers only saves calls.
type Client struct {
	cfg     Config
	log     *zap.Logger
	regions []*region
	started time.Time // market time at which prices of a catalogue without dates began

	mu    sync.Mutex
	homes map[events.InstanceID]*region   // of machines that were seen with our mark
	ends  map[events.InstanceID]time.Time // market time, of those that EC2 gives none for
}

var (
	_ provider.Provider = (*Client)(nil)
	_ provider.Notifier = (*Client)(nil)
)

// region is one region's clients and what does not change there, or rarely.
type region struct {
	Region
	seller   string
	ec2      *ec2.Client
	sqs      *sqs.Client
	zones    cached[zones]
	machines cached[map[string]hardware]
	sold     cached[map[string][]string] // on demand: zone ids by instance type
	scores   cached[map[string]int]      // by zone id, in hundredths
	history  history
}

// How long what is remembered is believed, control time.
const (
	zonesHold    = time.Hour
	machinesHold = 24 * time.Hour
	scoresHold   = time.Hour
)

// New returns a client. It makes no call.
func New(cfg Config) (*Client, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	c := &Client{cfg: cfg, log: cfg.Log, started: cfg.Now().Market, homes: map[events.InstanceID]*region{}, ends: map[events.InstanceID]time.Time{}}
	for _, r := range cfg.Regions {
		c.regions = append(c.regions, &region{
			Region: r, seller: cfg.Seller, ec2: cfg.compute(r.Name), sqs: cfg.queues(r.Name), history: newHistory(),
		})
	}
	return c, nil
}

// Capabilities implements what provider.CapabilitiesOf asks for: notices need a queue.
func (c *Client) Capabilities() provider.Capabilities {
	return provider.Capabilities{Notices: slices.ContainsFunc(c.regions, func(r *region) bool { return r.Queue != "" })}
}

// compute is the seller's client of a region: one attempt, whole answers.
func (c Config) compute(name string) *ec2.Client {
	return ec2.New(ec2.Options{
		Region: name, Credentials: c.Credentials, HTTPClient: bounded{c.Client}, Retryer: aws.NopRetryer{},
		BaseEndpoint: optional(c.Endpoint), APIOptions: []func(*middleware.Stack) error{wholeReplies},
	})
}

func (c Config) queues(name string) *sqs.Client {
	return sqs.New(sqs.Options{
		Region: name, Credentials: c.Credentials, HTTPClient: bounded{c.Client}, Retryer: aws.NopRetryer{},
		BaseEndpoint: optional(c.QueueEndpoint),
	})
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// region returns the region of that name, nil if it is not ours to use.
func (c *Client) region(name string) *region {
	for _, r := range c.regions {
		if r.Name == name {
			return r
		}
	}
	return nil
}

// everywhere asks all regions at once and returns their errors in their order.
func (c *Client) everywhere(ask func(n int, r *region) error) []error {
	errs := make([]error, len(c.regions))
	var g errgroup.Group
	g.SetLimit(8)
	for n, r := range c.regions {
		g.Go(func() error {
			errs[n] = ask(n, r)
			return nil
		})
	}
	_ = g.Wait()
	return errs
}

// settle turns the regions' errors into one: nil if any of them answered. The
// others are told to people.
func (c *Client) settle(op string, errs []error) error {
	var first error
	failed := 0
	for n, err := range errs {
		if err == nil {
			continue
		}
		failed++
		if first == nil {
			first = err
		}
		if len(errs) > 1 {
			c.log.Warn("region left out", zap.String("op", op), zap.String("region", c.regions[n].Name), zap.Error(err))
		}
	}
	if failed < len(errs) {
		return nil
	}
	return first
}

// remember notes where machines are.
func (c *Client) remember(r *region, instances ...provider.Instance) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, i := range instances {
		c.homes[i.ID] = r
	}
}

// forget keeps only the machines of a complete look, and those that began after it.
func (c *Client) forget(before map[events.InstanceID]*region, listed map[events.InstanceID]bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id := range before {
		if !listed[id] && len(c.homes) > mostHomes {
			delete(c.homes, id)
			delete(c.ends, id)
		}
	}
}

// mostHomes is how many machines may be remembered before those that are no
// longer listed are forgotten: a new one is missing from lists for a while.
const mostHomes = 1024

func (c *Client) known() map[events.InstanceID]*region {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.homes)
}

// cached is something that rarely changes. While it cannot be loaded again, what
// was loaded before is used.
type cached[T any] struct {
	mu     sync.Mutex
	value  T
	loaded time.Time
	ok     bool
}

func (c *cached[T]) get(ctx context.Context, now time.Time, hold time.Duration, load func(context.Context) (T, error)) (T, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ok && now.Sub(c.loaded) < hold {
		return c.value, nil
	}
	v, err := load(ctx)
	if err != nil {
		if c.ok {
			return c.value, nil
		}
		return v, err
	}
	c.value, c.loaded, c.ok = v, now, true
	return v, nil
}
