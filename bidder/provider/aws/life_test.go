package aws

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/bidder/provider/aws/awsfake"
	"github.com/spotferry/spotferry/bidder/provider/providertest"
	"github.com/spotferry/spotferry/events"
)

func TestANewProcessListsWhatTheOldOneDid(t *testing.T) {
	t.Parallel()
	r := newRig(t, providertest.Config{}, awsfake.Config{})
	old := r.client(t)
	spec := providertest.SampleSpec(spot)
	spec.Labels["note"] = "ünïcode, and \"quotes\"\n"
	buy(t, old, spec, "01jrestart-1-1")
	demand := providertest.SampleSpec(onDemand)
	buy(t, old, demand, "01jrestart-1-2")
	r.behind.SetPrice(spot.Pool, 2*price)
	gone := buy(t, old, spec, "01jrestart-1-3")
	if err := old.Terminate(t.Context(), gone.ID); err != nil {
		t.Fatal(err)
	}
	before, after := list(t, old), list(t, r.client(t))
	if !before.Complete || len(before.Instances) != 3 || !reflect.DeepEqual(before.Instances, after.Instances) {
		t.Errorf("the old process lists\n%+v\nthe new one\n%+v", before.Instances, after.Instances)
	}
	again := buy(t, r.client(t), spec, "01jrestart-1-1")
	if first, _ := before.Find("01jrestart-1-1"); again.ID != first.ID || len(r.behind.Intervals()) != 3 {
		t.Errorf("the new process's repeat gave %s, want %s, and nothing new", again.ID, first.ID)
	}
}

// The price moved between the launch and its repeat: nothing of it may be in the
// request, or the repeat would be another one.
func TestARepeatIsTheSameRequestWhateverThePriceIsByThen(t *testing.T) {
	t.Parallel()
	r := newRig(t, providertest.Config{}, awsfake.Config{})
	spec := providertest.SampleSpec(spot)
	first := buy(t, r.client(t), spec, "01jrepeat-1-1")
	r.behind.SetPrice(spot.Pool, price+price/2)
	if again := buy(t, r.client(t), spec, "01jrepeat-1-1"); again.ID != first.ID || again.Price() != first.Price() {
		t.Errorf("the repeat gave %s at %s, want %s at %s", again.ID, again.Price(), first.ID, first.Price())
	}
}

func TestASpotMachineCostsWhatTheMarketDid(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	clock := func() events.Moment { mu.Lock(); defer mu.Unlock(); return events.Moment{Control: now, Market: now} }
	pass := func(d time.Duration) { mu.Lock(); defer mu.Unlock(); now = now.Add(d) }
	r := newRig(t, providertest.Config{Now: clock}, awsfake.Config{})
	c := r.client(t, func(c *Config) { c.Now = clock })
	pass(time.Hour)
	i := buy(t, c, providertest.SampleSpec(spot), "01jprices-1-1")
	for n := range 3 {
		pass(47 * time.Minute)
		r.behind.SetPrice(spot.Pool, price+events.PerInstanceHour(n+1)*events.DollarPerHour/10)
		list(t, c)
	}
	pass(29 * time.Minute)
	r.behind.Kill(i.ID, "seller")
	pass(time.Minute)
	r.behind.SetPrice(spot.Pool, price)
	for name, client := range map[string]*Client{"the one that saw it": c, "one that did not": r.client(t, func(c *Config) { c.Now = clock })} {
		got, _ := list(t, client).Find("01jprices-1-1")
		bill := r.behind.Invoice()[0]
		if mine := providertest.Bill(got.Started, got.Ended, got.EndedBy, got.Prices, got.Terms); mine != bill.Amount || len(got.Prices) != 4 {
			t.Errorf("%s: %s from %v, the invoice says %s from %v", name, mine, got.Prices, bill.Amount, bill.Prices)
		}
	}
}

func TestWhatIsNotOursIsNeitherListedNorTouched(t *testing.T) {
	t.Parallel()
	r := newRig(t, providertest.Config{}, awsfake.Config{})
	c := r.client(t)
	production := r.client(t, func(c *Config) { c.Mark = "production" })
	theirs := buy(t, production, providertest.SampleSpec(spot), "01jother-1-1")
	bare := r.behind.Foreign(spot.Pool, "somebody", map[string]string{"Name": "web"}, true)
	near := r.behind.Foreign(spot.Pool, "somebody-2", map[string]string{"spotferry:mark": "tes"}, true)
	mine := buy(t, c, providertest.SampleSpec(spot), "01jmine-1-1")
	if l := list(t, c); len(l.Instances) != 1 || l.Instances[0].ID != mine.ID {
		t.Errorf("listed %+v, want our one machine", l.Instances)
	}
	for _, id := range []events.InstanceID{theirs.ID, bare, near} {
		kindOf(t, c.Terminate(t.Context(), id), provider.Invalid)
	}
	if r.behind.ForeignKills() != 0 || len(r.behind.Live()) != 2 {
		t.Errorf("%d foreign machines were killed, %d of two ours live", r.behind.ForeignKills(), len(r.behind.Live()))
	}
	_, err := c.Launch(t.Context(), providertest.SampleSpec(spot), "01jother-1-1")
	kindOf(t, err, provider.Conflict)
}

func TestTerminateFindsTheRegionByItself(t *testing.T) {
	t.Parallel()
	east := sold("us-east-1", "use1-az4", events.Spot, price)
	r := newRig(t, providertest.Config{Offers: []events.Offer{spot, east}}, awsfake.Config{})
	both := func(c *Config) {
		c.Regions = []Region{{Name: "us-east-1", Image: "ami-1"}, {Name: "us-west-2", Image: "ami-2"}}
	}
	i := buy(t, r.client(t, both), providertest.SampleSpec(east), "01jeast-1-1")
	fresh := r.client(t, both)
	if err := fresh.Terminate(t.Context(), i.ID); err != nil {
		t.Fatal(err)
	}
	if l := list(t, fresh); !l.Complete || len(l.Instances) != 1 || l.Instances[0].State != provider.Gone {
		t.Errorf("list %+v, want the machine gone", l)
	}
	partly := r.client(t, func(c *Config) {
		c.Regions = []Region{{Name: "us-west-2", Image: "ami-2"}, {Name: "us-east-1", Image: "ami-1"}}
		c.Endpoint = deaf(t, r.url, "us-east-1")
	})
	kindOf(t, partly.Terminate(t.Context(), i.ID), provider.Transient)
	kindOf(t, fresh.Terminate(t.Context(), "no id\n"), provider.Invalid)
}

// deaf is the way to a rig on which one region fails.
func deaf(t *testing.T, to, region string) string {
	t.Helper()
	target, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if scope := r.Header.Get("Authorization"); strings.Contains(scope, "/"+region+"/") {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		out := r.Clone(r.Context())
		out.URL.Scheme, out.URL.Host, out.RequestURI = target.Scheme, target.Host, ""
		resp, err := http.DefaultTransport.RoundTrip(out)
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		defer resp.Body.Close()
		w.WriteHeader(resp.StatusCode)
		_, _ = io.Copy(w, resp.Body)
	}))
	t.Cleanup(srv.Close)
	return srv.URL
}

func TestTheTokenOfAnEndedMachineThatEC2RefusesIsFound(t *testing.T) {
	t.Parallel()
	r := newRig(t, providertest.Config{}, awsfake.Config{EndedTokens: true})
	c := r.client(t)
	spec := providertest.SampleSpec(spot)
	i := buy(t, c, spec, "01jended-1-1")
	if err := c.Terminate(t.Context(), i.ID); err != nil {
		t.Fatal(err)
	}
	await(t, c, "it gone", func(l provider.Listing) bool { m, _ := l.Find(i.Token); return m.State == provider.Gone })
	if again := buy(t, c, spec, "01jended-1-1"); again.ID != i.ID || again.State != provider.Gone {
		t.Errorf("the token gave %+v, want %s gone", again, i.ID)
	}
	spec.UserData = []byte("{}")
	_, err := c.Launch(t.Context(), spec, "01jended-1-1")
	kindOf(t, err, provider.Conflict)
}

func TestMachinesThatEndedAreListedForAnHour(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	clock := func() events.Moment { mu.Lock(); defer mu.Unlock(); return events.Moment{Control: now, Market: now} }
	r := newRig(t, providertest.Config{Now: clock}, awsfake.Config{})
	c := r.client(t, func(c *Config) { c.Now = clock })
	i := buy(t, c, providertest.SampleSpec(spot), "01jhour-1-1")
	if err := c.Terminate(t.Context(), i.ID); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ minutes, want int }{{0, 1}, {59, 1}, {61, 0}} {
		mu.Lock()
		now = time.Date(2026, 11, 30, 12, tc.minutes, 0, 0, time.UTC)
		mu.Unlock()
		if got := len(list(t, c).Instances); got != tc.want {
			t.Errorf("after %d minutes %d machines are listed, want %d", tc.minutes, got, tc.want)
		}
	}
}

func TestAThrottledCallSaysSo(t *testing.T) {
	t.Parallel()
	r := newRig(t, providertest.Config{}, awsfake.Config{Burst: 2, PerSecond: 0.001})
	c := r.client(t)
	list(t, c)
	list(t, c)
	_, err := c.List(t.Context())
	kindOf(t, err, provider.Throttled)
}

func TestWhoEndedAMachineIsReadFromTheReason(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]string{
		"Server.SpotInstanceTermination": "seller", "Server.SpotInstanceShutdown": "seller", "Server.InsufficientInstanceCapacity": "seller",
		"Client.UserInitiatedShutdown": "us", "Client.InstanceInitiatedShutdown": "machine", "Client.InternalError": "fault",
		"Client.SomethingNew": "us", "Server.InternalError": "fault", "Server.SomethingNew": "fault", "": "fault",
	} {
		if got := endedBy(&types.StateReason{Code: aws.String(code)}); got != want {
			t.Errorf("%q: ended by %q, want %q", code, got, want)
		}
	}
	if got := endedBy(nil); got != "fault" {
		t.Errorf("no reason: ended by %q", got)
	}
}

func TestWhenAMachineEndedIsReadFromTheTransition(t *testing.T) {
	t.Parallel()
	want := time.Date(2026, 11, 30, 12, 23, 40, 0, time.UTC)
	for reason, ok := range map[string]bool{
		"User initiated (2026-11-30 12:23:40 GMT)": true, "Service initiated (2026-11-30 12:23:40 GMT)": true, "User initiated (2026-11-30 12:23:40 UTC)": true,
		"User initiated": false, "": false, "User initiated (yesterday)": false, "(": false, ")(": false,
	} {
		got, there := endOf(reason)
		if there != ok || ok && !got.Equal(want) {
			t.Errorf("%q: %s, %v", reason, got, there)
		}
	}
	c := open(t, (&rig{behind: nil, ec2: awsfake.New(awsfake.Config{Backend: providertest.New(providertest.Config{Now: moment})}), url: "http://127.0.0.1:9"}).config(t))
	m := provider.Instance{ID: "i-1", Started: want}
	first := c.ended(m, types.Instance{})
	if again := c.ended(m, types.Instance{}); !again.Equal(first) || first.Before(want) {
		t.Errorf("an end that is not told is %s and then %s", first, again)
	}
}
