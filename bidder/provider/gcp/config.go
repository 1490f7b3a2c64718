package gcp

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/spotferry/spotferry/events"
)

// Config says whose machines to buy and how they are made. Zero fields mean
// their defaults.
type Config struct {
	Seller  string   // name in pools; "gcp"
	Project string   // id of the project that pays; required
	Mark    string   // of the environment: machines marked otherwise are not ours; required
	Regions []string // to buy in; none: all

	Image          string // of the boot disk: "projects/P/global/images/family/F"; required
	DiskGB         int    // of the boot disk; 100
	DiskType       string // "pd-balanced"
	Network        string // "global/networks/default"; or a Subnetwork
	Subnetwork     string // "regions/%s/subnetworks/NAME": %s becomes the region
	Internal       bool   // no address of its own to the outside: the network has another way out
	ServiceAccount string // e-mail of the account that machines act as; none
	// MaxRun is after how long Google deletes a machine whatever we do: a dead
	// man's switch. 0 is never.
	MaxRun time.Duration
	// NoticeLead is how long before the thirty seconds of a preemption the machine
	// is to be told of it. Google may not heed it. 0 asks for nothing.
	NoticeLead time.Duration

	Compute string // base of the Compute Engine API; Google's
	Billing string // base of the Cloud Billing API; Google's
	// AccessToken is sent as it is; empty: application default credentials are found
	// where Google's own programs look for them.
	AccessToken string
	Client      *http.Client // carries the calls, without credentials; one of its own

	// Advice has Google asked how likely each spot pool is to have a machine,
	// whenever types and prices are read: one call for each.
	Advice bool

	Reread time.Duration        // how long machine types and prices are believed; 1 h
	Pause  time.Duration        // before an operation that is not done is looked at again; 1 s
	Now    func() events.Moment // required
	Log    *zap.Logger          // none: silence
}

var (
	projectID = regexp.MustCompile(`^([a-z][a-z0-9.-]*:)?[a-z][a-z0-9-]{4,28}[a-z0-9]$`)
	label     = regexp.MustCompile(`^[a-z0-9_-]{1,63}$`)
)

// minRun is the shortest life that Google can be told to limit a machine to.
const minRun = 30 * time.Second

// Validate says which field cannot be used and what to give instead.
func (c Config) Validate() error {
	var errs []error
	refuse := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf("gcp: "+format, args...))
		}
	}
	refuse(!projectID.MatchString(c.Project), "Project is %q: give the id of a project, such as 'my-project-1234'", c.Project)
	refuse(c.Mark == "", "Mark is empty: give the mark of this environment, so that others' machines are told apart")
	refuse(c.Image == "", "Image is empty: give a boot image with the GPU's driver, such as 'projects/P/global/images/family/F'")
	refuse(c.Network != "" && c.Subnetwork != "", "Network %q and Subnetwork %q are both given: give one", c.Network, c.Subnetwork)
	refuse(c.DiskGB < 0 || c.DiskGB > 65536, "DiskGB is %d: give 10 to 65536", c.DiskGB)
	refuse(!reachable(c.Compute), "Compute is %q: give https:// and a host, or nothing", hostOf(c.Compute))
	refuse(!reachable(c.Billing), "Billing is %q: give https:// and a host, or nothing", hostOf(c.Billing))
	refuse(c.MaxRun != 0 && (c.MaxRun < minRun || c.MaxRun > 120*24*time.Hour), "MaxRun is %s: give 30s to 2880h, or nothing", c.MaxRun)
	refuse(c.NoticeLead < 0, "NoticeLead is %s: give a duration, or nothing", c.NoticeLead)
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

// hostOf is as much of an endpoint as may be said aloud.
func hostOf(endpoint string) string {
	if _, after, ok := strings.Cut(endpoint, "@"); ok {
		return "..." + after
	}
	return endpoint
}

func (c Config) withDefaults() Config {
	for _, d := range []struct {
		field *string
		value string
	}{
		{&c.Seller, "gcp"},
		{&c.DiskType, "pd-balanced"},
		{&c.Compute, "https://compute.googleapis.com/compute/v1/"},
		{&c.Billing, "https://cloudbilling.googleapis.com/"},
	} {
		if *d.field == "" {
			*d.field = d.value
		}
	}
	if c.Network == "" && c.Subnetwork == "" {
		c.Network = "global/networks/default"
	}
	if c.DiskGB == 0 {
		c.DiskGB = 100
	}
	if c.Reread == 0 {
		c.Reread = time.Hour
	}
	if c.Pause == 0 {
		c.Pause = time.Second
	}
	if c.Log == nil {
		c.Log = zap.NewNop()
	}
	return c
}
