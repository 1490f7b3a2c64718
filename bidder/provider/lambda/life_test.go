package lambda_test

import (
	"fmt"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/bidder/provider/lambda"
	"github.com/spotferry/spotferry/bidder/provider/lambda/lambdafake"
	"github.com/spotferry/spotferry/bidder/provider/providertest"
	"github.com/spotferry/spotferry/events"
)

func TestARepeatAfterALostAnswerBuysNothing(t *testing.T) {
	t.Parallel()
	r := open(t, providertest.Config{Visible: 300 * time.Millisecond}, lambdafake.Config{}, nil)
	spec := r.spec(t)
	r.backend.Script(provider.OpLaunch, providertest.Fault{Mode: providertest.Lost})
	for n := range 2 { // the second is not sent: the machine may only be late in lists
		_, err := r.client.Launch(t.Context(), spec, "lease-1")
		if provider.KindOf(err) != provider.UnknownOutcome {
			t.Fatalf("launch %d: %v, want an unknown outcome", n+1, err)
		}
	}
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		i, err := r.client.Launch(t.Context(), spec, "lease-1")
		if err == nil && i.Token == "lease-1" {
			break
		}
		if provider.KindOf(err) != provider.UnknownOutcome || time.Now().After(deadline) {
			t.Fatalf("%+v, %v", i, err)
		}
	}
	if r.fake.Launches() != 1 {
		t.Errorf("%d launches, want 1", r.fake.Launches())
	}
}

func TestANewProcessKnowsWhatLives(t *testing.T) {
	t.Parallel()
	r := open(t, providertest.Config{}, lambdafake.Config{}, nil)
	spec := r.spec(t)
	spec.Labels["note"] = "any text: \"ü\n\"" + strings.Repeat("0123456789", 30)
	born, err := r.client.Launch(t.Context(), spec, "lease-1")
	if err != nil {
		t.Fatal(err)
	}
	old, _ := list(t, r.client).Find("lease-1")
	again := r.another(t, "env-1")
	i, ok := list(t, again).Find("lease-1")
	if !ok || !reflect.DeepEqual(i, old) || i.ID != born.ID || !i.Started.Equal(born.Started) || i.Price() != born.Price() {
		t.Errorf("a new process sees %+v, the old one %+v", i, old)
	}
	if same, err := again.Launch(t.Context(), spec, "lease-1"); err != nil || same.ID != born.ID {
		t.Errorf("a repeat gave %s, %v; want %s", same.ID, err, born.ID)
	}
	spec.UserData = []byte("other")
	if _, err := again.Launch(t.Context(), spec, "lease-1"); provider.KindOf(err) != provider.Conflict {
		t.Errorf("another request under the token: %v, want a conflict", err)
	}
	if err := again.Terminate(t.Context(), born.ID); err != nil {
		t.Fatal(err)
	}
	for _, p := range []*lambda.Client{again, r.another(t, "env-1")} { // Lambda remembers for a while
		if gone, _ := list(t, p).Find("lease-1"); gone.State != provider.Gone || gone.EndedBy != "us" {
			t.Errorf("it is %s by %q, want gone by us", gone.State, gone.EndedBy)
		}
	}
	if r.fake.Launches() != 1 || len(r.backend.Live()) != 0 {
		t.Errorf("%d launches, %d alive; want 1 and none", r.fake.Launches(), len(r.backend.Live()))
	}
}

func TestLabelsThatDoNotFitAreRefusedBeforeAnythingIsBought(t *testing.T) {
	t.Parallel()
	r := open(t, providertest.Config{}, lambdafake.Config{}, nil)
	spec := r.spec(t)
	for n := range 400 {
		spec.Labels[fmt.Sprint(n)] = fmt.Sprintf("%x", n*n*n*7919)
	}
	if _, err := r.client.Launch(t.Context(), spec, "lease-1"); provider.KindOf(err) != provider.Invalid || r.fake.Launches() != 0 {
		t.Errorf("%v with %d launches, want invalid", err, r.fake.Launches())
	}
}

func TestOtherMarksAndStrangersAreNeitherListedNorTouched(t *testing.T) {
	t.Parallel()
	r := open(t, providertest.Config{}, lambdafake.Config{}, nil)
	theirs, err := r.another(t, "env-10").Launch(t.Context(), r.spec(t), "lease-1")
	if err != nil {
		t.Fatal(err)
	}
	r.backend.Foreign(dollar("us-west-2").Pool, "lease-1", map[string]string{"env": "env-1"}, true) // the name is no proof
	if l := list(t, r.client); len(l.Instances) != 0 || !l.Complete {
		t.Fatalf("listed %+v", l)
	}
	for n := range 6 {
		if err := r.client.Terminate(t.Context(), events.InstanceID(fmt.Sprintf("%032x", n))); err != nil {
			t.Fatal(err)
		}
	}
	if r.backend.ForeignKills() != 0 || len(r.backend.Live()) != 1 {
		t.Errorf("%d strangers ended, %d of the other mark alive; want 0 and 1", r.backend.ForeignKills(), len(r.backend.Live()))
	}
	if mine := r.buy(t, "lease-1"); mine.ID == theirs.ID {
		t.Error("the other mark's machine was taken for ours")
	}
}

func TestWhatIsListedMayBeRefused(t *testing.T) {
	t.Parallel()
	r := open(t, providertest.Config{}, lambdafake.Config{Every: time.Hour}, nil)
	spec := r.spec(t)
	r.fake.Refuse(1)
	if _, err := r.client.Launch(t.Context(), spec, "lease-1"); provider.KindOf(err) != provider.NoCapacity {
		t.Errorf("%v, want no capacity", err)
	}
	if _, err := r.client.Launch(t.Context(), spec, "lease-2"); provider.KindOf(err) != provider.Throttled {
		t.Errorf("a launch that comes too fast: %v, want throttled", err)
	}
	if r.fake.Launches() != 0 {
		t.Errorf("%d launches, want none", r.fake.Launches())
	}
}

func TestTypesOfAnyShape(t *testing.T) {
	t.Parallel()
	const shape = `{"instance_type":{"name":%q,"gpu_description":"A10 (24 GB PCIe)","price_cents_per_hour":%s,"specs":{"vcpus":30,"memory_gib":200,"storage_gib":1400,"gpus":%s}},"regions_with_capacity_available":%s}`
	const here = `[{"name":"europe-central-1","description":"Germany"}]`
	for _, tc := range []struct {
		name                       string
		says, cents, gpus, regions string
		price                      events.PerInstanceHour // 0: nothing is offered
	}{
		{"as it should be", "x", "75", "1", here, 750_000_000},
		{"cents as text", "x", `"75"`, "1", here, 750_000_000},
		{"a part of a cent", "x", "75.5", "1", here, 755_000_000},
		{"null is not free", "x", "null", "1", here, 0},
		{"0 is not free", "x", "0", "1", here, 0},
		{"below 0", "x", "-75", "1", here, 0},
		{"a word", "x", `"free"`, "1", here, 0},
		{"beyond all floats", "x", "1e400", "1", here, 0},
		{"no capacity anywhere", "x", "75", "1", "[]", 0},
		{"capacity of null", "x", "75", "1", "null", 0},
		{"regions that are none", "x", "75", "1", `"everywhere"`, 0},
		{"a region without a name", "x", "75", "1", `[{"name":null}]`, 0},
		{"no GPU", "x", "75", "0", here, 0},
		{"another name inside than outside", "y", "75", "1", here, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := open(t, providertest.Config{}, lambdafake.Config{}, func(http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					fmt.Fprintf(w, `{"data":{"x":%s,"z":%s}}`, fmt.Sprintf(shape, tc.says, tc.cents, tc.gpus, tc.regions), fmt.Sprintf(shape, "z", "100", "1", here))
				})
			})
			offers, err := r.client.Offers(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			want := 1
			if tc.price > 0 {
				want = 2
			}
			if len(offers) != want || offers[len(offers)-1].Pool.InstanceType != "z" { // one bad type spoils no other
				t.Fatalf("offered %+v", offers)
			}
			if o := offers[0]; tc.price > 0 && (o.Price != tc.price || o.Country != "DE" || o.GPU.Model != "A10" || o.RAMMiB != 200<<10 || o.Pool.Zone != "europe-central-1") {
				t.Errorf("offered %+v", o)
			}
		})
	}
}

func TestAWrongConfigurationIsNamed(t *testing.T) {
	t.Parallel()
	good := lambda.Config{Key: "k", Mark: "m", SSHKey: "s", Now: moment}
	for field, spoil := range map[string]func(*lambda.Config){
		"key": func(c *lambda.Config) { c.Key = "" }, "ssh_key": func(c *lambda.Config) { c.SSHKey = "" }, "now": func(c *lambda.Config) { c.Now = nil },
		"mark": func(c *lambda.Config) { c.Mark = "a:b" }, "seller": func(c *lambda.Config) { c.Seller = "a.b" },
		"endpoint": func(c *lambda.Config) { c.Endpoint = "x" }, "terms": func(c *lambda.Config) { c.Terms.GrainS = -1 },
	} {
		c := good
		spoil(&c)
		if _, err := lambda.New(c); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v, want an error that names it", field, err)
		}
	}
	if _, err := lambda.New(good); err != nil {
		t.Error(err)
	}
}

func TestACrashBetweenPurchaseAndRecordBuysNothingTwice(t *testing.T) {
	t.Parallel()
	const crashes = 100
	r := open(t, providertest.Config{}, lambdafake.Config{}, nil)
	spec := r.spec(t)
	for n := range crashes {
		token := "lease-" + strconv.Itoa(n)
		r.backend.Script(provider.OpLaunch, providertest.Fault{Mode: providertest.Lost})
		if _, err := r.client.Launch(t.Context(), spec, token); provider.KindOf(err) != provider.UnknownOutcome {
			t.Fatalf("an answer that was lost: %v", err)
		}
		r.client = r.another(t, "env-1") // the process died, and another does the same again
		i, err := r.client.Launch(t.Context(), spec, token)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.client.Terminate(t.Context(), i.ID); err != nil {
			t.Fatal(err)
		}
	}
	if r.fake.Launches() != crashes || len(r.backend.Live()) != 0 {
		t.Errorf("%d purchases, %d left; want %d and none", r.fake.Launches(), len(r.backend.Live()), crashes)
	}
}
