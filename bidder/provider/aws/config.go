package aws

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/aws"
	"go.uber.org/zap"

	"github.com/spotferry/spotferry/events"
)

// Region is one region that machines are bought in, with what is ours there.
type Region struct {
	Name  string // "us-east-1"
	Image string // the machine image with driver and agent; required
	// Country is where it lies (ISO 3166-1 alpha-2), for regions that are newer than
	// this program. "": as AWS publishes it.
	Country string
	// Subnets are by zone id. A zone without one gets the default subnet.
	Subnets        map[string]string
	SecurityGroups []string // ids; none: the default group
	// Queue is the URL of the queue that the region's interruption warnings are
	// sent to, of this installation alone: what is read from it is gone. "": none.
	Queue string
}

// Config describes one account as one installation uses it. Zero fields mean
// their defaults, but for those that say required.
type Config struct {
	Seller      string                  // its name in pools; "aws"
	Mark        string                  // of this installation, in a tag; machines with another are never touched. Required
	Regions     []Region                // required
	Credentials aws.CredentialsProvider // required

	Types  []string // instance types that are looked at; none: all that have a GPU
	Arch   string   // of the image; "x86_64"
	Driver string   // of the image, said in offers: "570.86.15"
	CUDA   string   // the newest that driver runs: "12.8"
	// RootDevice is the image's root device, "/dev/sda1"; with it the disk has DiskGB
	// and goes with the machine. "": the image says how large the disk is.
	RootDevice string
	DiskGB     int // of every offer; 100

	OnDemand Catalogue // on-demand prices; none: on-demand capacity is not offered
	// Scores asks, once an hour and region, how likely a spot launch succeeds.
	Scores   bool
	OfferTTL time.Duration // how long an offer may be bought; 5 min

	Endpoint      string // in place of EC2's, for every region
	QueueEndpoint string // in place of SQS's

	Now    func() events.Moment // required
	Client *http.Client         // nil: one of its own, without redirects
	Log    *zap.Logger          // nil: silent
}

// Validate names the first field that cannot be used, and what to do about it.
func (c Config) Validate() error {
	switch {
	case c.Mark == "" || len(c.Mark) > maxTagValue || !utf8.ValidString(c.Mark):
		return fmt.Errorf("aws: Mark is %.64q: give the installation's mark, at most %d characters", c.Mark, maxTagValue)
	case c.Credentials == nil:
		return errors.New("aws: Credentials are missing: give the account's keys, as the AWS client finds them in AWS_PROFILE or AWS_ACCESS_KEY_ID")
	case c.Now == nil:
		return errors.New("aws: Now is missing: give a clock")
	case len(c.Regions) == 0:
		return errors.New("aws: Regions are missing: name at least one, such as us-east-1")
	case c.DiskGB < 0 || c.DiskGB > 16_384:
		return fmt.Errorf("aws: DiskGB is %d: a gp3 volume has 1 to 16384", c.DiskGB)
	}
	for _, e := range []struct{ field, address string }{{"Endpoint", c.Endpoint}, {"QueueEndpoint", c.QueueEndpoint}} {
		if !whole(e.address) {
			return fmt.Errorf("aws: %s is %.100q: give a whole address, with https://", e.field, e.address)
		}
	}
	if c.Seller != "" {
		if err := events.CheckToken("Seller", c.Seller); err != nil {
			return fmt.Errorf("aws: %w", err)
		}
	}
	return checkRegions(c.Regions)
}

func checkRegions(regions []Region) error {
	seen := map[string]bool{}
	for _, r := range regions {
		switch {
		case r.Name == "":
			return errors.New("aws: a region has no Name: give one such as us-east-1")
		case seen[r.Name]:
			return fmt.Errorf("aws: region %s stands twice in Regions: leave one", r.Name)
		case r.Country != "" && !isCountry(r.Country):
			return fmt.Errorf("aws: Country of region %s is %.10q: write two capitals, such as IE", r.Name, r.Country)
		case !strings.HasPrefix(r.Image, "ami-"):
			return fmt.Errorf("aws: Image of region %s is %.40q: give the id of a machine image there, ami-…", r.Name, r.Image)
		}
		if !whole(r.Queue) {
			return fmt.Errorf("aws: Queue of region %s is %.100q: give the queue's URL", r.Name, r.Queue)
		}
		seen[r.Name] = true
	}
	return nil
}

func isCountry(s string) bool {
	return len(s) == 2 && strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == ""
}

// whole says whether an address is missing, or has all of its parts.
func whole(address string) bool {
	u, err := url.Parse(address)
	return address == "" || err == nil && u.Scheme != "" && u.Host != ""
}

func (c Config) withDefaults() Config {
	set(&c.Seller, "aws")
	set(&c.Arch, "x86_64")
	set(&c.DiskGB, 100)
	set(&c.OfferTTL, 5*time.Minute)
	set(&c.Log, zap.NewNop())
	if c.Client == nil {
		t := http.DefaultTransport.(*http.Transport).Clone()
		t.ResponseHeaderTimeout = 2 * time.Minute
		c.Client = &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse // a signed request goes nowhere else
		}}
	}
	return c
}

func set[T comparable](field *T, fallback T) {
	var zero T
	if *field == zero {
		*field = fallback
	}
}
