package events_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/spotferry/spotferry/events"
)

func TestOffersAreFreshUntilTheirTimeIsUp(t *testing.T) {
	t.Parallel()
	seen := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	o := events.Offer{Seen: seen, TTLS: 60}
	for after, want := range map[time.Duration]bool{-time.Second: true, 0: true, time.Minute: true, time.Minute + 1: false} {
		if got := o.Fresh(seen.Add(after)); got != want {
			t.Errorf("%v after it was seen, Fresh = %t", after, got)
		}
	}
	yes, no := true, false
	if !o.Available() || !(events.Offer{InStock: &yes}).Available() || (events.Offer{InStock: &no}).Available() {
		t.Error("a seller that does not say counts as having one; one that says no does not")
	}
}

func TestPoolsReadShort(t *testing.T) {
	t.Parallel()
	p := events.Pool{Seller: "aws", Region: "us-east-1", Zone: "use1-az1", InstanceType: "p3.2xlarge", Capacity: events.Spot, Gang: 1}
	if got := p.String(); got != "aws/use1-az1/p3.2xlarge/spot" {
		t.Error(got)
	}
	if got := p.Subject(); got != "use1-az1-p3_2xlarge-spot-1" || events.CheckToken("pool", got) != nil {
		t.Error(got)
	}
	p.Gang = 16
	if got := p.String(); got != "aws/use1-az1/p3.2xlarge/spotx16" {
		t.Error(got)
	}
}

func TestWorkKnowsHowLongItTakes(t *testing.T) {
	t.Parallel()
	w := events.Work{HoursOnS: map[string]int64{"V100": 3600, "*": 7200}}
	for model, want := range map[string]time.Duration{"V100": time.Hour, "H100": 2 * time.Hour} {
		if got, ok := w.On(model); !ok || got != want {
			t.Errorf("on %s: %v, %t", model, got, ok)
		}
	}
	if _, ok := (events.Work{}).On("V100"); ok {
		t.Error("nobody said how long it takes")
	}
}

func TestDemoDividesEveryTimerButTheMarkets(t *testing.T) {
	t.Parallel()
	whole, tenth := reflect.ValueOf(events.DefaultTimers()), reflect.ValueOf(events.DefaultTimers().Divide(10))
	for i := range whole.NumField() {
		name := whole.Type().Field(i).Name
		want := whole.Field(i).Int() / 10
		if name == "Dwell" {
			want = whole.Field(i).Int()
		}
		if tenth.Field(i).Int() != want || want == 0 {
			t.Errorf("%s is %v, want %v", name, time.Duration(tenth.Field(i).Int()), time.Duration(want))
		}
	}
}

func TestRefusalsSayTheRemedy(t *testing.T) {
	t.Parallel()
	r := &events.Refusal{Code: events.RefusedFenced, Message: "epoch 2 is over", Remedy: "stop"}
	if got := r.Error(); got != "fenced: epoch 2 is over (stop)" {
		t.Error(got)
	}
	if got := (&events.Refusal{Code: "x", Message: "y"}).Error(); got != "x: y" {
		t.Error(got)
	}
}
