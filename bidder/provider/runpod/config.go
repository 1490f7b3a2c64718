package runpod

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/spotferry/spotferry/bidder/provider/keyless"
	"github.com/spotferry/spotferry/bidder/provider/wire"
	"github.com/spotferry/spotferry/events"
)

// Config configures the seller. Zero fields mean their defaults where one is named.
type Config struct {
	Seller   string // its name in pools; "runpod"
	Endpoint string // "https://api.runpod.io"
	Key      string // the account's, required
	Mark     string // the environment's, required
	Now      func() events.Moment
	Client   *http.Client
	Log      *zap.Logger

	Image       string   // that pods run, required
	Args        string   // of the image's entrypoint
	DiskGB      int      // of a pod; 40
	DataCentres []string // to buy in, such as EU-RO-1; required
	Counts      []int    // of GPUs in a pod; 1, 2, 4 and 8
	Spot        bool     // sell interruptible pods where there is a lowest bid

	OfferTTL time.Duration // how long an offer may be bought; 3 min
	Settle   time.Duration // how long a new pod may be missing from lists; 180 s
}

// mostGPUs is more than any pod has; above it is nonsense.
const mostGPUs = 16

// Validate says which field cannot be used.
func (c Config) Validate() error {
	switch {
	case c.Key == "":
		return errors.New("key: missing: give the account's API key")
	case c.Image == "":
		return errors.New("image: missing: name the container image that pods run")
	case c.Now == nil:
		return errors.New("now: missing: give a clock")
	case c.DiskGB < 0:
		return fmt.Errorf("disk_gb: %d: give the size of a pod's disk", c.DiskGB)
	case len(c.DataCentres) == 0:
		return errors.New("data_centres: missing: name those to buy in, such as EU-RO-1")
	}
	for _, d := range c.DataCentres {
		if d == "" || len(d) > 32 || strings.Trim(d, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-") != "" {
			return fmt.Errorf("data_centres: %.40q: write one as RunPod does, such as EU-RO-1", d)
		}
	}
	for _, n := range c.Counts {
		if n < 1 || n > mostGPUs {
			return fmt.Errorf("counts: %d: a pod has 1 to %d GPUs", n, mostGPUs)
		}
	}
	if err := events.CheckToken("mark", c.Mark); err != nil {
		return err
	}
	return events.CheckToken("seller", cmp.Or(c.Seller, "runpod"))
}

func (c Config) withDefaults() Config {
	c.Seller = cmp.Or(c.Seller, "runpod")
	c.Endpoint = cmp.Or(c.Endpoint, "https://api.runpod.io")
	c.DiskGB = cmp.Or(c.DiskGB, 40)
	c.OfferTTL = cmp.Or(c.OfferTTL, 3*time.Minute)
	if len(c.Counts) == 0 {
		c.Counts = []int{1, 2, 4, 8}
	}
	if c.Log == nil {
		c.Log = zap.NewNop()
	}
	return c
}

// Client is RunPod as one account sees it. It is safe for concurrent use.
type Client struct {
	cfg  Config
	api  *wire.API
	desk *keyless.Desk

	mu      sync.Mutex
	quotes  map[events.Pool]quote // of the newest look
	refused map[events.Pool]bool  // those that answered 400 and said not why, since the last success
}

// New opens the seller. It asks nothing yet.
func New(cfg Config) (*Client, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("runpod: %w", err)
	}
	cfg = cfg.withDefaults()
	api, err := wire.NewAPI(cfg.Endpoint, cfg.Key, cfg.Client)
	if err != nil {
		return nil, fmt.Errorf("runpod: %w", err)
	}
	c := &Client{cfg: cfg, api: api, quotes: map[events.Pool]quote{}, refused: map[events.Pool]bool{}}
	c.desk = keyless.Open(shop{c}, keyless.Config{Mark: cfg.Mark, Now: cfg.Now, Settle: cfg.Settle, Log: cfg.Log})
	return c, nil
}
