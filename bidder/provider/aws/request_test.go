package aws

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/bidder/provider/providertest"
	"github.com/spotferry/spotferry/events"
)

// onTheWire launches spec and returns what EC2 was sent.
func onTheWire(t *testing.T, spec provider.LaunchSpec, change func(*Config)) url.Values {
	t.Helper()
	var mu sync.Mutex
	var sent url.Values
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if action := r.FormValue("Action"); action != "RunInstances" {
			fmt.Fprint(w, sane[action])
			return
		}
		mu.Lock()
		defer mu.Unlock()
		sent = r.PostForm
		fmt.Fprint(w, sane["RunInstances"])
	}))
	t.Cleanup(srv.Close)
	cfg := Config{
		Mark: "test", Credentials: credentials.NewStaticCredentialsProvider("AKIDEXAMPLE", "secret", ""), Endpoint: srv.URL, Now: moment,
		Regions: []Region{{Name: "us-west-2", Image: "ami-1", SecurityGroups: []string{"sg-1"}}}, OnDemand: Catalogue{{"us-west-2", "p3.2xlarge"}: {Price: price}},
	}
	change(&cfg)
	buy(t, open(t, cfg), spec, "01jwire-1-1")
	mu.Lock()
	defer mu.Unlock()
	return sent
}

func TestALaunchAsksForWhatItShould(t *testing.T) {
	t.Parallel()
	spec := providertest.SampleSpec(spot)
	spec.MaxPrice = 1_234_567_899 // told in whole micro-dollars, rounded down
	const market = "InstanceMarketOptions."
	want := map[string]string{
		"ClientToken": "01jwire-1-1", "MinCount": "1", "MaxCount": "1", "ImageId": "ami-1", "InstanceType": "p3.2xlarge", "SecurityGroupId.1": "sg-1",
		"UserData": base64.StdEncoding.EncodeToString(spec.UserData), "InstanceInitiatedShutdownBehavior": "terminate",
		market + "MarketType": "spot", market + "SpotOptions.MaxPrice": "1.234567", market + "SpotOptions.SpotInstanceType": "one-time",
		market + "SpotOptions.InstanceInterruptionBehavior": "terminate", "Placement.AvailabilityZone": "us-west-2c",
		"MetadataOptions.HttpTokens": "required", "MetadataOptions.HttpPutResponseHopLimit": "2",
		"BlockDeviceMapping.1.DeviceName": "/dev/sda1", "BlockDeviceMapping.1.Ebs.VolumeSize": "300", "BlockDeviceMapping.1.Ebs.VolumeType": "gp3",
		"BlockDeviceMapping.1.Ebs.DeleteOnTermination": "true",
	}
	disk := func(c *Config) { c.RootDevice, c.DiskGB = "/dev/sda1", 300 }
	sent := onTheWire(t, spec, disk)
	for name, value := range want {
		if got := sent.Get(name); got != value {
			t.Errorf("%s is %q, want %q", name, got, value)
		}
	}
	if got := tagged(sent); got != "instance volume network-interface spot-instances-request" {
		t.Errorf("tags are on %s", got)
	}
	if again := onTheWire(t, spec, disk); again.Encode() != sent.Encode() {
		t.Error("the same request is sent in two ways")
	}

	spec.Pool.Capacity = events.OnDemand
	sent = onTheWire(t, spec, func(c *Config) { c.Regions[0].Subnets = map[string]string{"usw2-az1": "subnet-1"} })
	for name := range sent {
		if strings.HasPrefix(name, market) || strings.HasPrefix(name, "Placement.") || strings.HasPrefix(name, "BlockDeviceMapping.") {
			t.Errorf("an on-demand machine in a subnet is asked for with %s", name)
		}
	}
	if got := tagged(sent); sent.Get("SubnetId") != "subnet-1" || got != "instance volume network-interface" {
		t.Errorf("in subnet %q, tags on %s", sent.Get("SubnetId"), got)
	}
}

func tagged(form url.Values) string {
	var on []string
	for n := 1; form.Has(fmt.Sprintf("TagSpecification.%d.ResourceType", n)); n++ {
		on = append(on, form.Get(fmt.Sprintf("TagSpecification.%d.ResourceType", n)))
	}
	return strings.Join(on, " ")
}

func TestALaunchThatCannotBeIsNotSent(t *testing.T) {
	t.Parallel()
	c, calls := hostile(t, nil)
	list(t, c) // the zones are known from then on
	before := calls.Load()
	for name, tc := range map[string]struct {
		change func(*provider.LaunchSpec)
		want   provider.Kind
	}{
		"below the least that EC2 takes":   {func(s *provider.LaunchSpec) { s.MaxPrice = leastCap - 1 }, provider.PriceTooLow},
		"user data that does not fit":      {func(s *provider.LaunchSpec) { s.UserData = make([]byte, maxUserData+1) }, provider.Invalid},
		"a gang":                           {func(s *provider.LaunchSpec) { s.Pool.Gang = 2 }, provider.Invalid},
		"labels that do not fit":           {func(s *provider.LaunchSpec) { s.Labels = map[string]string{"x": strings.Repeat("x", 9000)} }, provider.Invalid},
		"a region that is not ours":        {func(s *provider.LaunchSpec) { s.Pool.Region = "eu-west-1" }, provider.OfferGone},
		"another seller's pool":            {func(s *provider.LaunchSpec) { s.Pool.Seller = "gcp" }, provider.OfferGone},
		"a zone's name in place of its id": {func(s *provider.LaunchSpec) { s.Pool.Zone = "us-west-2c" }, provider.OfferGone},
		"on demand without a price":        {func(s *provider.LaunchSpec) { s.Pool.Capacity = events.OnDemand }, provider.OfferGone},
		"a capacity that is not sold":      {func(s *provider.LaunchSpec) { s.Pool.Capacity = events.Bid }, provider.OfferGone},
	} {
		spec := providertest.SampleSpec(spot)
		tc.change(&spec)
		_, err := c.Launch(t.Context(), spec, "01jwire-1-1")
		if e := kindOf(t, err, tc.want); e.MaybeCreated || e.Code == "" {
			t.Errorf("%s: %+v", name, e)
		}
	}
	if n := calls.Load() - before; n != 0 {
		t.Errorf("%d calls were made", n)
	}
}
