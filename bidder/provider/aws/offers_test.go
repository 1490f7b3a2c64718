package aws

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/bidder/provider/aws/awsfake"
	"github.com/spotferry/spotferry/bidder/provider/providertest"
	"github.com/spotferry/spotferry/events"
)

func TestOffersSayWhatIsKnown(t *testing.T) {
	t.Parallel()
	r := newRig(t, providertest.Config{}, awsfake.Config{Page: 5})
	c := r.client(t, func(c *Config) { c.Driver, c.CUDA, c.DiskGB = "570.86.15", "12.8", 250 })
	offers, err := c.Offers(t.Context())
	if err != nil || len(offers) != 4 { // on demand a type is had wherever there are any
		t.Fatalf("offers %+v, %v; want four", offers, err)
	}
	for _, o := range offers {
		if o.Country != "US" || o.GPU.Model != "V100" || o.GPU.Vendor != "nvidia" || o.GPU.Count != 1 || o.VCPU != 8 || o.RAMMiB != 62464 || o.DiskGB != 250 {
			t.Errorf("offer %+v", o)
		}
		if o.Egress != 90_000 || o.Storage != 80_000 || o.StorageStopped != 80_000 || o.Trust != events.TrustDataCentre || o.Isolation != events.Passthrough ||
			o.NoticeKind != events.NoticeEC2 || o.AfterReclaim != events.AfterGone || o.Driver != "570.86.15" || o.CUDA != "12.8" || o.TTLS != 300 {
			t.Errorf("offer %+v", o)
		}
	}
	byPool := map[events.Pool]events.Offer{}
	for _, o := range offers {
		byPool[o.Pool] = o
	}
	for _, want := range []events.Offer{spot, other, onDemand} {
		got := byPool[want.Pool]
		if got.Price != want.Price || got.Terms != want.Terms {
			t.Errorf("%s: price %s, terms %+v; want %s, %+v", want.Pool, got.Price, got.Terms, want.Price, want.Terms)
		}
	}
	if byPool[spot.Pool].NoticeS != 120 || byPool[onDemand.Pool].NoticeS != 0 {
		t.Error("spot is warned of for two minutes, on demand not at all")
	}
	again, err := c.Offers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for n := range again {
		again[n].Seen = offers[n].Seen
		if fmt.Sprint(again[n]) != fmt.Sprint(offers[n]) {
			t.Errorf("a second look that finds nothing new says %+v, before %+v", again[n], offers[n])
		}
	}
}

func TestARegionLiesWhereAWSSays(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"us-west-2": "US", "us-gov-west-1": "US", "eu-west-1": "IE", "eu-central-2": "CH", "ap-southeast-2": "AU", "cn-north-1": "CN", "mars-1": "",
	} {
		if got := (&region{Region: Region{Name: name}}).country(); got != want {
			t.Errorf("%s lies in %q, want %q", name, got, want)
		}
	}
	if got := (&region{Region: Region{Name: "mars-1", Country: "IE"}}).country(); got != "IE" {
		t.Errorf("a region that is said to lie in IE lies in %q", got)
	}
}

func TestAPollAsksForPricesOnly(t *testing.T) {
	t.Parallel()
	r := newRig(t, providertest.Config{}, awsfake.Config{})
	c := r.client(t)
	for range 3 {
		if _, err := c.Offers(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for action, want := range map[string]int{
		"ec2:DescribeSpotPriceHistory": 3, "ec2:DescribeAvailabilityZones": 1, "ec2:DescribeInstanceTypes": 1, "ec2:DescribeInstanceTypeOfferings": 1,
	} {
		if got := r.ec2.Calls(action); got != want {
			t.Errorf("%d calls of %s, want %d", got, action, want)
		}
	}
}

func TestScoresAreAskedForOnceAndOfEnoughTypes(t *testing.T) {
	t.Parallel()
	r := newRig(t, providertest.Config{Offers: threeTypes()}, awsfake.Config{})
	c := r.client(t, func(c *Config) { c.Scores = true })
	for range 2 {
		offers, err := c.Offers(t.Context())
		if err != nil || len(offers) != 3 || offers[0].Score != 90 {
			t.Errorf("offers %+v, %v; want three with a score of 90", offers, err)
		}
	}
	if got := r.ec2.Calls("ec2:GetSpotPlacementScores"); got != 1 {
		t.Errorf("asked %d times for scores, want 1", got)
	}
}

func TestManyTypesAreAskedForInTurns(t *testing.T) {
	t.Parallel()
	var all []events.Offer
	var names []string
	for n := range 230 {
		o := spot
		o.Pool.InstanceType = fmt.Sprintf("p3.%dxlarge", n)
		all, names = append(all, o), append(names, o.Pool.InstanceType)
	}
	r := newRig(t, providertest.Config{Offers: all}, awsfake.Config{Page: 50})
	for name, change := range map[string]func(*Config){
		"all":                          func(*Config) {},
		"by name, one of them unknown": func(c *Config) { c.Types = append(names[:230:230], "p9.unheard-of") },
	} {
		offers, err := r.client(t, change).Offers(t.Context())
		if err != nil || len(offers) != 230 {
			t.Errorf("%s: %d offers, %v; want 230", name, len(offers), err)
		}
	}
}

func TestARegionThatDoesNotAnswerIsLeftOut(t *testing.T) {
	t.Parallel()
	east := sold("us-east-1", "use1-az4", events.Spot, price)
	r := newRig(t, providertest.Config{Offers: []events.Offer{spot, east}}, awsfake.Config{})
	both := []Region{{Name: "us-east-1", Image: "ami-1"}, {Name: "us-west-2", Image: "ami-2"}}
	if offers, err := r.client(t, func(c *Config) { c.Regions = both }).Offers(t.Context()); err != nil || len(offers) != 2 {
		t.Errorf("offers %+v, %v; want one of each region", offers, err)
	}
	c := r.client(t, func(c *Config) {
		c.Regions = []Region{{Name: "us-west-2", Image: "ami-2"}, {Name: "eu-west-1", Image: "ami-3"}}
	})
	if offers, err := c.Offers(t.Context()); err != nil || len(offers) != 1 {
		t.Errorf("offers %+v, %v; want those of the region that has any", offers, err)
	}
	if l := list(t, c); l.Complete {
		t.Error("a list without one of its regions calls itself complete")
	}
}

func TestTheNewestPriceOfAPlaceCounts(t *testing.T) {
	t.Parallel()
	z := zones{nameOf: map[string]string{"usw2-az1": "us-west-2c"}, idOf: map[string]string{"us-west-2c": "usw2-az1"}}
	at := func(minute int) time.Time { return time.Date(2026, 11, 30, 12, minute, 0, 0, time.UTC) }
	for _, tc := range []struct {
		name string
		row  types.SpotPrice
		want bool
	}{
		{"by id", types.SpotPrice{AvailabilityZoneId: aws.String("usw2-az1"), InstanceType: "p3.2xlarge", ProductDescription: plainLinux, Timestamp: aws.Time(at(0))}, true},
		{"by name", types.SpotPrice{AvailabilityZone: aws.String("us-west-2c"), InstanceType: "p3.2xlarge", ProductDescription: plainLinux, Timestamp: aws.Time(at(0))}, true},
		{"a zone that is closed to us", types.SpotPrice{AvailabilityZone: aws.String("us-west-2-lax-1a"), InstanceType: "p3.2xlarge", ProductDescription: plainLinux, Timestamp: aws.Time(at(0))}, false},
		{"another product", types.SpotPrice{AvailabilityZoneId: aws.String("usw2-az1"), InstanceType: "p3.2xlarge", ProductDescription: "Linux/UNIX (Amazon VPC)", Timestamp: aws.Time(at(0))}, false},
		{"no time", types.SpotPrice{AvailabilityZoneId: aws.String("usw2-az1"), InstanceType: "p3.2xlarge", ProductDescription: plainLinux}, false},
	} {
		if _, ok := readRow(tc.row, z); ok != tc.want {
			t.Errorf("%s: counted is %v", tc.name, ok)
		}
	}
	r := newRig(t, providertest.Config{}, awsfake.Config{})
	c := r.client(t)
	r.behind.SetPrice(spot.Pool, 5*price)
	if _, err := c.Offers(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.behind.SetPrice(spot.Pool, 4*price)
	offers, err := c.Offers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range offers {
		if o.Pool == spot.Pool && o.Price != 4*price {
			t.Errorf("price %s, want the newest, %s", o.Price, 4*price)
		}
	}
}

func TestAConfigurationThatCannotWorkNamesTheField(t *testing.T) {
	t.Parallel()
	r := newRig(t, providertest.Config{}, awsfake.Config{})
	for field, change := range map[string]func(*Config){
		"Mark":          func(c *Config) { c.Mark = "" },
		"Credentials":   func(c *Config) { c.Credentials = nil },
		"Now":           func(c *Config) { c.Now = nil },
		"Regions":       func(c *Config) { c.Regions = nil },
		"Name":          func(c *Config) { c.Regions[0].Name = "" },
		"Image":         func(c *Config) { c.Regions[0].Image = "ubuntu" },
		"Queue":         func(c *Config) { c.Regions[0].Queue = "my-queue" },
		"Country":       func(c *Config) { c.Regions[0].Country = "Ireland" },
		"twice":         func(c *Config) { c.Regions = append(c.Regions, c.Regions[0]) },
		"Endpoint":      func(c *Config) { c.Endpoint = "localhost" },
		"QueueEndpoint": func(c *Config) { c.QueueEndpoint = "::" },
		"Seller":        func(c *Config) { c.Seller = "A W S" },
		"DiskGB":        func(c *Config) { c.DiskGB = 1 << 20 },
	} {
		cfg := r.config(t)
		change(&cfg)
		if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
	cfg := r.config(t)
	cfg.Regions[0].Queue = ""
	if provider.CapabilitiesOf(open(t, cfg)).Notices {
		t.Error("without a queue it claims to hear of interruptions")
	}
}
