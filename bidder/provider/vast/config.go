package vast

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/spotferry/spotferry/bidder/provider/keyless"
	"github.com/spotferry/spotferry/bidder/provider/wire"
	"github.com/spotferry/spotferry/events"
)

// Config configures the seller. Zero fields mean their defaults where one is named.
type Config struct {
	Seller   string // its name in pools; "vast"
	Endpoint string // "https://console.vast.ai"
	Key      string // the account's, required
	Mark     string // the environment's, required
	Now      func() events.Moment
	Client   *http.Client
	Log      *zap.Logger

	Image   string // that machines run, required
	Onstart string // script that machines run when they have started
	Runtype string // how the image is started; "ssh" with Onstart, else "args"
	DiskGB  int    // of a machine, for its whole life; 32

	Unverified bool // also machines that Vast.ai has not verified
	DataCentre bool // only machines of data centres
	Limit      int  // the most offers of one search; 3000
	// BidOverPct is how far above the lowest bid that would run now we bid, in
	// hundredths. A bid is paid as it is.
	BidOverPct int

	OfferTTL time.Duration // how long an offer may be bought; 3 min
	Settle   time.Duration // how long a new machine may be missing from lists; 180 s
	Pace     Intervals
}

// Intervals are the least times between two calls of each kind. Zero is what Vast.ai
// asks for, negative none.
type Intervals struct {
	Search  time.Duration // 2 s
	List    time.Duration // 1 s
	Create  time.Duration // 4.5 s
	Destroy time.Duration // 3 s
	Bid     time.Duration // 5.5 s
	Penalty time.Duration // to the next create after one that came too soon; 12 s
}

// leastDisk is what Vast.ai rents at least.
const leastDisk = 8

// Validate says which field cannot be used.
func (c Config) Validate() error {
	switch {
	case c.Key == "":
		return errors.New("key: missing: give the account's API key")
	case c.Image == "":
		return errors.New("image: missing: name the container image that machines run")
	case c.Now == nil:
		return errors.New("now: missing: give a clock")
	case c.DiskGB != 0 && c.DiskGB < leastDisk:
		return fmt.Errorf("disk_gb: %d: Vast.ai rents at least %d", c.DiskGB, leastDisk)
	case c.BidOverPct < 0 || c.BidOverPct > 1000:
		return fmt.Errorf("bid_over_pct: %d: give 0 to 1000", c.BidOverPct)
	case c.Limit < 0:
		return fmt.Errorf("limit: %d: give the most offers of one search", c.Limit)
	}
	if err := events.CheckToken("mark", c.Mark); err != nil {
		return err
	}
	return events.CheckToken("seller", cmp.Or(c.Seller, "vast"))
}

func (c Config) withDefaults() Config {
	c.Seller = cmp.Or(c.Seller, "vast")
	c.Endpoint = cmp.Or(c.Endpoint, "https://console.vast.ai")
	c.DiskGB = cmp.Or(c.DiskGB, 32)
	c.Limit = cmp.Or(c.Limit, 3000)
	c.OfferTTL = cmp.Or(c.OfferTTL, 3*time.Minute)
	if c.Runtype == "" {
		c.Runtype = "args"
		if strings.TrimSpace(c.Onstart) != "" {
			c.Runtype = "ssh"
		}
	}
	if c.Log == nil {
		c.Log = zap.NewNop()
	}
	return c
}

// paces are the minimum intervals of the endpoints.
type paces struct {
	search, list, create, destroy, bid *wire.Pace
	penalty                            time.Duration
}

func (i Intervals) paces() paces {
	return paces{
		search: wire.Every(i.Search, 2*time.Second), list: wire.Every(i.List, time.Second),
		create: wire.Every(i.Create, 4500*time.Millisecond), destroy: wire.Every(i.Destroy, 3*time.Second),
		bid: wire.Every(i.Bid, 5500*time.Millisecond), penalty: max(cmp.Or(i.Penalty, 12*time.Second), 0),
	}
}

// New opens the seller. It asks nothing yet.
func New(cfg Config) (*Client, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("vast: %w", err)
	}
	cfg = cfg.withDefaults()
	api, err := wire.NewAPI(cfg.Endpoint, cfg.Key, cfg.Client)
	if err != nil {
		return nil, fmt.Errorf("vast: %w", err)
	}
	c := &Client{cfg: cfg, api: api, pace: cfg.Pace.paces(), quotes: map[events.Pool]quote{}}
	c.desk = keyless.Open(shop{c}, keyless.Config{Mark: cfg.Mark, Now: cfg.Now, Settle: cfg.Settle, Log: cfg.Log})
	return c, nil
}
