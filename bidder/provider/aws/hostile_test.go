package aws

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/bidder/provider/providertest"
	"github.com/spotferry/spotferry/events"
)

const ns = `xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"`

// sane are whole answers of a small region; a test replaces one.
var sane = map[string]string{
	"DescribeAvailabilityZones": `<DescribeAvailabilityZonesResponse ` + ns + `><availabilityZoneInfo><item><zoneName>us-west-2c</zoneName>` +
		`<zoneId>usw2-az1</zoneId><zoneType>availability-zone</zoneType></item></availabilityZoneInfo></DescribeAvailabilityZonesResponse>`,
	"DescribeInstanceTypes": `<DescribeInstanceTypesResponse ` + ns + `><instanceTypeSet><item><instanceType>p3.2xlarge</instanceType>` +
		`<gpuInfo><gpus><item><name>V100</name><manufacturer>NVIDIA</manufacturer><count>1</count><memoryInfo><sizeInMiB>16384</sizeInMiB></memoryInfo></item></gpus></gpuInfo>` +
		`</item></instanceTypeSet></DescribeInstanceTypesResponse>`,
	"DescribeSpotPriceHistory": prices(`<spotPrice>1.000000</spotPrice>`),
	"DescribeInstances":        `<DescribeInstancesResponse ` + ns + `><reservationSet/></DescribeInstancesResponse>`,
	"RunInstances": `<RunInstancesResponse ` + ns + `><instancesSet><item><instanceId>i-1</instanceId><instanceType>p3.2xlarge</instanceType>` +
		`<instanceState><code>0</code><name>pending</name></instanceState></item></instancesSet></RunInstancesResponse>`,
	"TerminateInstances": `<TerminateInstancesResponse ` + ns + `/>`,
}

// prices is a history of one row.
func prices(price string) string {
	return `<DescribeSpotPriceHistoryResponse ` + ns + `><spotPriceHistorySet><item><instanceType>p3.2xlarge</instanceType>` +
		`<productDescription>Linux/UNIX</productDescription>` + price + `<timestamp>2026-11-30T12:00:00.000Z</timestamp>` +
		`<availabilityZone>us-west-2c</availabilityZone></item></spotPriceHistorySet><nextToken></nextToken></DescribeSpotPriceHistoryResponse>`
}

// hostile serves the sane answers but for those replaced.
func hostile(t *testing.T, answers map[string]func(http.ResponseWriter)) (*Client, *atomic.Int64) {
	t.Helper()
	calls := &atomic.Int64{}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		action := r.FormValue("Action")
		if answer := answers[action]; answer != nil {
			answer(w)
			return
		}
		io.WriteString(w, sane[action])
	}))
	t.Cleanup(srv.Close)
	return open(t, Config{
		Mark: "test", Credentials: credentials.NewStaticCredentialsProvider("AKIDEXAMPLE", "secret", ""),
		Regions: []Region{{Name: "us-west-2", Image: "ami-1"}}, Endpoint: srv.URL, Now: moment,
	}), calls
}

func text(s string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) { io.WriteString(w, s) }
}

func TestAReplyThatIsNoneIsNotBelieved(t *testing.T) {
	t.Parallel()
	page := 0
	for _, tc := range []struct {
		name   string
		answer func(action string) func(http.ResponseWriter)
	}{
		{"a proxy's page with a good status", func(string) func(http.ResponseWriter) {
			return text("<html><head><title>Sign in to the hotel's network</title></head><body>…</body></html>")
		}},
		{"an XML document of something else", func(string) func(http.ResponseWriter) {
			return text(`<?xml version="1.0"?><rss version="2.0"><channel/></rss>`)
		}},
		{"nothing", func(string) func(http.ResponseWriter) { return text("") }},
		{"half an answer", func(action string) func(http.ResponseWriter) {
			whole := sane[action]
			return text(whole[:len(whole)*2/3])
		}},
		{"half an answer that promised more", func(action string) func(http.ResponseWriter) {
			whole := sane[action]
			return func(w http.ResponseWriter) {
				w.Header().Set("Content-Length", fmt.Sprint(len(whole)))
				io.WriteString(w, whole[:len(whole)/2])
			}
		}},
		{"JSON", func(string) func(http.ResponseWriter) { return text(`{"Instances":[]}`) }},
		{"elements that do not match", func(action string) func(http.ResponseWriter) {
			return text("<" + action + "Response><instancesSet><item></instancesSet></item></" + action + "Response>")
		}},
		{"fifty megabytes", func(action string) func(http.ResponseWriter) {
			return func(w http.ResponseWriter) {
				io.WriteString(w, "<"+action+"Response>")
				for range 50 << 4 {
					if _, err := io.WriteString(w, strings.Repeat("<item></item>    ", 1<<12)); err != nil {
						return // cut off, as it should be
					}
				}
			}
		}},
		{"numbers that are words", func(action string) func(http.ResponseWriter) {
			return text("<" + action + "Response><reservationSet><item><instancesSet><item><amiLaunchIndex>many</amiLaunchIndex></item></instancesSet></item></reservationSet>" +
				"<instancesSet><item><amiLaunchIndex>many</amiLaunchIndex></item></instancesSet></" + action + "Response>")
		}},
	} {
		page++
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			answers := map[string]func(http.ResponseWriter){}
			for _, action := range []string{"DescribeInstances", "RunInstances"} {
				answers[action] = tc.answer(action)
			}
			c, calls := hostile(t, answers)
			if l, err := c.List(t.Context()); err == nil {
				t.Errorf("a list of it: %+v", l)
			} else {
				kindOf(t, err, provider.Transient)
			}
			before := calls.Load()
			_, err := c.Launch(t.Context(), providertest.SampleSpec(spot), "01jhostile-1-1")
			if e := kindOf(t, err, provider.UnknownOutcome); !e.MaybeCreated || e.Code == "" && tc.name != "numbers that are words" {
				t.Errorf("a launch: %+v", e)
			}
			if n := calls.Load() - before; n > 1 {
				t.Errorf("a launch took %d calls; a repeat is for others to decide", n)
			}
		})
	}
}

func TestAListThatGoesRoundEnds(t *testing.T) {
	t.Parallel()
	at := 0
	c, calls := hostile(t, map[string]func(http.ResponseWriter){"DescribeInstances": func(w http.ResponseWriter) {
		at++
		fmt.Fprintf(w, "<DescribeInstancesResponse %s><reservationSet/><nextToken>page-%d</nextToken></DescribeInstancesResponse>", ns, at%3)
	}})
	_, err := c.List(t.Context())
	if e := kindOf(t, err, provider.Transient); !strings.Contains(e.Error(), "comes round again") || calls.Load() > 10 {
		t.Errorf("after %d calls: %v", calls.Load(), err)
	}
}

func TestAPriceThatIsNoneIsNotFree(t *testing.T) {
	t.Parallel()
	for name, price := range map[string]string{
		"not known": "<spotPrice>N/A</spotPrice>", "below nothing": "<spotPrice>-1.000000</spotPrice>", "nothing": "<spotPrice>0.000000</spotPrice>",
		"empty": "<spotPrice></spotPrice>", "missing": "", "beyond counting": "<spotPrice>99999999999999999999</spotPrice>",
		"with a comma": "<spotPrice>1,25</spotPrice>", "in powers": "<spotPrice>1e3</spotPrice>", "not a number": "<spotPrice>NaN</spotPrice>",
		"too fine": "<spotPrice>0.0000000001</spotPrice>",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, _ := hostile(t, map[string]func(http.ResponseWriter){"DescribeSpotPriceHistory": text(prices(price))})
			offers, err := c.Offers(t.Context())
			if err != nil || len(offers) != 0 {
				t.Errorf("offers %+v, %v; want none", offers, err)
			}
		})
	}
	c, _ := hostile(t, map[string]func(http.ResponseWriter){"DescribeSpotPriceHistory": text(prices("<spotPrice>1.25</spotPrice>"))})
	if offers, err := c.Offers(t.Context()); err != nil || len(offers) != 1 || offers[0].Price != 1_250_000_000 {
		t.Errorf("a price of two decimals: %+v, %v", offers, err)
	}
}

func TestMachinesThatMakeNoSenseAreNotOurs(t *testing.T) {
	t.Parallel()
	mark := "<tagSet><item><key>spotferry:mark</key><value>test</value></item><item><key>spotferry:lease</key><value>01j-1-1</value></item></tagSet>"
	reply := func(items ...string) func(http.ResponseWriter) {
		return text("<DescribeInstancesResponse " + ns + "><reservationSet><item><instancesSet><item>" + strings.Join(items, "</item><item>") +
			"</item></instancesSet></item></reservationSet></DescribeInstancesResponse>")
	}
	one := "<instanceId>i-1</instanceId><instanceType>p3.2xlarge</instanceType><clientToken>01j-1-1</clientToken>" + mark
	for _, tc := range []struct {
		name   string
		answer func(http.ResponseWriter)
		want   int
	}{
		{"one of ours with little told of it", reply(one), 1},
		{"the same id twice is one machine", reply(one, one), 1},
		{"no id", reply(mark), 0},
		{"an id that is none", reply("<instanceId>i-1\n; rm</instanceId>" + mark), 0},
		{"another mark, though ours was asked for", reply(strings.ReplaceAll(one, ">test<", ">production<")), 0},
		{"no mark", reply("<instanceId>i-2</instanceId><clientToken>01j-1-2</clientToken>"), 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c, _ := hostile(t, map[string]func(http.ResponseWriter){"DescribeInstances": tc.answer})
			l, err := c.List(t.Context())
			if err != nil || !l.Complete || len(l.Instances) != tc.want {
				t.Errorf("list %+v, %v; want %d machines", l, err, tc.want)
			}
		})
	}
}

func TestALaunchAnsweredWithAnotherNumberOfMachinesIsUnknown(t *testing.T) {
	t.Parallel()
	item := "<item><instanceId>i-1</instanceId></item>"
	for _, items := range []string{"", item + item, "<item/>"} {
		c, _ := hostile(t, map[string]func(http.ResponseWriter){
			"RunInstances": text("<RunInstancesResponse " + ns + "><instancesSet>" + items + "</instancesSet></RunInstancesResponse>"),
		})
		_, err := c.Launch(t.Context(), providertest.SampleSpec(spot), "01jhostile-1-1")
		kindOf(t, err, provider.UnknownOutcome)
	}
}

// A full region at the seller's largest size: what a poll costs from memory.
func BenchmarkReadingARegionsPrices(b *testing.B) {
	var rows strings.Builder
	for n := range 1000 {
		fmt.Fprintf(&rows, "<item><instanceType>p3.%dxlarge</instanceType><productDescription>Linux/UNIX</productDescription><spotPrice>1.%06d</spotPrice>"+
			"<timestamp>2026-11-30T12:00:00.000Z</timestamp><availabilityZone>us-west-2c</availabilityZone></item>", n, n)
	}
	body := "<DescribeSpotPriceHistoryResponse " + ns + "><spotPriceHistorySet>" + rows.String() + "</spotPriceHistorySet></DescribeSpotPriceHistoryResponse>"
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, body) }))
	defer srv.Close()
	c, err := New(Config{
		Mark: "test", Credentials: credentials.NewStaticCredentialsProvider("AKIDEXAMPLE", "secret", ""),
		Regions: []Region{{Name: "us-west-2", Image: "ami-1"}}, Endpoint: srv.URL, Now: func() events.Moment { return moment() },
	})
	if err != nil {
		b.Fatal(err)
	}
	z := zones{nameOf: map[string]string{"usw2-az1": "us-west-2c"}, idOf: map[string]string{"us-west-2c": "usw2-az1"}}
	for b.Loop() {
		rows, err := c.regions[0].askPrices(b.Context(), z, nil, moment().Market)
		if err != nil || len(rows) != 1000 {
			b.Fatal(len(rows), err)
		}
	}
}
