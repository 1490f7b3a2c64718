package azure

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"go.uber.org/zap"

	"github.com/spotferry/spotferry/events"
)

// Config says whose machines to buy and how they are made. Zero fields mean
// their defaults.
type Config struct {
	Seller        string   // name in pools; "azure"
	Subscription  string   // id of the subscription that pays; required
	ResourceGroup string   // that machines stand in, of any region; required
	Mark          string   // of the environment: machines marked otherwise are not ours; required
	Regions       []string // to buy in, such as "eastus"; required, since prices are read one region at a time

	// Image is the disk image with the GPU's driver: a resource's id, in which %s
	// becomes the region, or "publisher:offer:sku:version"; required.
	Image    string
	Subnet   string // id of the subnet of the machines, in which %s becomes the region; required
	Public   bool   // machines have an address of their own to the outside
	Admin    string // user on the machines; "spotferry"
	SSHKey   string // public key of that user, which Azure wants whether or not it is used; required
	DiskGB   int    // of the system disk; 128
	DiskType string // "Premium_LRS"

	Endpoint   string                 // base of the Resource Manager; Azure's
	Prices     string                 // base of the retail prices; Azure's
	Credential azcore.TokenCredential // required
	Client     *http.Client           // carries the calls, without credentials; one of its own

	Reread time.Duration        // how long sizes and prices are believed; 1 h
	Pause  time.Duration        // before an operation under way is looked at again, if Azure does not say; 2 s
	Now    func() events.Moment // required
	Log    *zap.Logger          // none: silence
}

const (
	theEndpoint = "https://management.azure.com"
	thePrices   = "https://prices.azure.com"
)

var (
	uuid      = regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)
	group     = regexp.MustCompile(`^[-\w.()]{0,89}[-\w()]$`)
	plainName = regexp.MustCompile(`^[a-z0-9]{1,40}$`) // of a region
)

// Validate says which field cannot be used and what to give instead.
func (c Config) Validate() error {
	var errs []error
	refuse := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf("azure: "+format, args...))
		}
	}
	refuse(!uuid.MatchString(c.Subscription), "Subscription is %q: give the subscription's id, a UUID", c.Subscription)
	refuse(!group.MatchString(c.ResourceGroup), "ResourceGroup is %q: give the name of one", c.ResourceGroup)
	refuse(c.Mark == "" || len(c.Mark) > maxTag, "Mark has %d bytes: give the mark of this environment, so that others' machines are told apart", len(c.Mark))
	refuse(len(c.Regions) == 0, "Regions is empty: give the regions to buy in, such as eastus")
	for _, r := range c.Regions {
		refuse(!plainName.MatchString(r), "Regions has %q: give names such as eastus", r)
	}
	refuse(c.Image == "", "Image is empty: give an image with the GPU's driver, as its id or as publisher:offer:sku:version")
	refuse(c.Image != "" && !strings.HasPrefix(c.Image, "/") && strings.Count(c.Image, ":") != 3, "Image is %q: give its id or publisher:offer:sku:version", c.Image)
	refuse(!strings.HasPrefix(c.Subnet, "/"), "Subnet is %q: give its id, /subscriptions/.../subnets/NAME", c.Subnet)
	refuse(c.SSHKey == "", "SSHKey is empty: give a public key, which Azure wants of every machine")
	refuse(c.DiskGB < 0 || c.DiskGB > 4095, "DiskGB is %d: give 1 to 4095", c.DiskGB)
	refuse(!reachable(c.Endpoint), "Endpoint cannot be used: give https:// and a host, or nothing")
	refuse(!reachable(c.Prices), "Prices cannot be used: give https:// and a host, or nothing")
	refuse(c.Credential == nil, "Credential is missing: give one, such as azidentity's default")
	refuse(c.Reread < 0, "Reread is %s: give a duration above zero", c.Reread)
	refuse(c.Pause < 0, "Pause is %s: give a duration above zero", c.Pause)
	refuse(c.Now == nil, "Now is missing: give a clock")
	return errors.Join(errs...)
}

// reachable says whether calls can go to an endpoint. Nothing secret stands in it.
func reachable(endpoint string) bool {
	u, err := url.Parse(endpoint)
	return endpoint == "" || err == nil && u.Host != "" && u.User == nil && (u.Scheme == "https" || u.Scheme == "http")
}

func (c Config) withDefaults() Config {
	for _, d := range []struct {
		field *string
		value string
	}{
		{&c.Seller, "azure"}, {&c.Admin, "spotferry"}, {&c.DiskType, "Premium_LRS"},
		{&c.Endpoint, theEndpoint}, {&c.Prices, thePrices},
	} {
		if *d.field == "" {
			*d.field = d.value
		}
	}
	if c.DiskGB == 0 {
		c.DiskGB = 128
	}
	if c.Reread == 0 {
		c.Reread = time.Hour
	}
	if c.Pause == 0 {
		c.Pause = 2 * time.Second
	}
	if c.Log == nil {
		c.Log = zap.NewNop()
	}
	return c
}
