package lambda

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/spotferry/spotferry/bidder/provider/keyless"
	"github.com/spotferry/spotferry/bidder/provider/wire"
	"github.com/spotferry/spotferry/events"
)

// Config configures the seller. Zero fields mean their defaults where one is named.
type Config struct {
	Seller   string // its name in pools; "lambda"
	Endpoint string // "https://cloud.lambda.ai"
	Key      string // the account's, required
	Mark     string // the environment's, required
	Now      func() events.Moment
	Client   *http.Client
	Log      *zap.Logger

	SSHKey  string   // name of a key of the account, required: Lambda launches with exactly one
	Regions []string // to buy in; none: everywhere
	// CloudConfig is appended to the cloud-config that brings the user data to
	// /etc/spotferry/bootstrap.json: what the machine runs when it has started.
	CloudConfig string
	Terms       events.Terms // by which it bills; a minute, at least one

	OfferTTL time.Duration // how long an offer may be bought; 3 min
	Settle   time.Duration // how long a new machine may be missing from lists; 120 s
	Request  time.Duration // the least time between two calls; 1 s, negative: none
	Launches time.Duration // the least time between two launches; 12 s, negative: none
}

// Validate says which field cannot be used.
func (c Config) Validate() error {
	switch {
	case c.Key == "":
		return errors.New("key: missing: give the account's API key")
	case c.SSHKey == "":
		return errors.New("ssh_key: missing: name a key that the account has; Lambda launches nothing without one")
	case c.Now == nil:
		return errors.New("now: missing: give a clock")
	case c.Terms.GrainS < 0 || c.Terms.MinimumS < 0:
		return errors.New("terms: grain and minimum are seconds, from 0")
	}
	if err := events.CheckToken("mark", c.Mark); err != nil {
		return err
	}
	return events.CheckToken("seller", cmp.Or(c.Seller, "lambda"))
}

func (c Config) withDefaults() Config {
	c.Seller = cmp.Or(c.Seller, "lambda")
	c.Endpoint = cmp.Or(c.Endpoint, "https://cloud.lambda.ai")
	c.Terms = cmp.Or(c.Terms, events.Terms{GrainS: 60, MinimumS: 60})
	c.Terms.GrainS = max(c.Terms.GrainS, 1)
	c.OfferTTL = cmp.Or(c.OfferTTL, 3*time.Minute)
	c.Settle = cmp.Or(c.Settle, 120*time.Second)
	if c.Log == nil {
		c.Log = zap.NewNop()
	}
	return c
}

// Client is Lambda Cloud as one account sees it. It is safe for concurrent use.
type Client struct {
	cfg      Config
	api      *wire.API
	requests *wire.Pace
	launches *wire.Pace
	desk     *keyless.Desk

	mu     sync.Mutex
	quotes map[events.Pool]events.Offer // of the newest look
}

// New opens the seller. It asks nothing yet.
func New(cfg Config) (*Client, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("lambda: %w", err)
	}
	cfg = cfg.withDefaults()
	api, err := wire.NewAPI(cfg.Endpoint, cfg.Key, cfg.Client)
	if err != nil {
		return nil, fmt.Errorf("lambda: %w", err)
	}
	c := &Client{
		cfg: cfg, api: api, requests: wire.Every(cfg.Request, time.Second), launches: wire.Every(cfg.Launches, 12*time.Second),
		quotes: map[events.Pool]events.Offer{},
	}
	c.desk = keyless.Open(shop{c}, keyless.Config{Mark: cfg.Mark, Now: cfg.Now, Settle: cfg.Settle, Log: cfg.Log})
	return c, nil
}
