package eventstest

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/spotferry/spotferry/events"
)

// The job, lease and organisation of every sample.
const (
	SampleOrg   events.OrgID   = "acme"
	SampleJob   events.JobID   = "01k5c3v7q2w8r9t0y1z2x3m4n5"
	SampleLease events.LeaseID = "01k5c3v7q2w8r9t0y1z2x3m4n5-2-1"
)

// sampleTime is when samples happen.
var sampleTime = time.Date(2030, 1, 31, 12, 0, 0, 123456789, time.UTC)

// Sample returns an event of type t in which every field is set, always to the
// same values: the published sample of its type, and what shows a field that
// does not survive being written and read.
func Sample(t events.EventType) events.Event {
	p := reflect.ValueOf(t.New())
	fill(p.Elem(), t.Event)
	e := events.Event{
		Sequence: 7, Source: "/spotferry/sample", Time: sampleTime, Correlation: string(SampleJob),
		Causation: events.EventID(SampleJob) + "-6", Trace: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
		Prev:        strings.Repeat("5f", 32),
		Attribution: events.Attribution{Org: SampleOrg, Team: "nlp", Project: "finetune", Labels: map[string]string{"ticket": "42"}},
		Finality:    events.Final,
		Fact:        p.Elem().Interface(),
	}
	switch t.Family {
	case "job":
		e.Aggregate = events.JobAggregate(SampleOrg, SampleJob)
	case "lease":
		e.Aggregate = events.LeaseAggregate(SampleOrg, SampleLease)
	case "money":
		e.Aggregate = events.MoneyAggregate(SampleOrg)
	case "ops":
		e.Aggregate = events.OpsAggregate(SampleOrg)
	default:
		e.Sequence, e.Prev = 0, ""
	}
	e.ID = events.EventID(fmt.Sprintf("%s-%d", e.Aggregate.Key(), e.Sequence))
	if t.Family == "offer" {
		e.ID = "offer-sample-1"
	}
	return e
}

// fill sets v and all below it. name is the field's, and hints at a plausible value.
func fill(v reflect.Value, name string) {
	if known, ok := plausible(v.Type(), name); ok {
		v.Set(reflect.ValueOf(known).Convert(v.Type()))
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), name)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), name)
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key, name+"-key")
		fill(value, name)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Struct:
		for i := range v.NumField() {
			tag, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
			fill(v.Field(i), tag)
		}
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Float32, reflect.Float64:
		v.SetFloat(0.25)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(int64(7 + len(name)))
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(7 + len(name)))
	case reflect.String:
		v.SetString("some " + strings.ReplaceAll(name, "_", " "))
	default:
		panic(fmt.Sprintf("no sample for field %q of type %s", name, v.Type()))
	}
}

// plausible is a value that a reader would expect of the type, or of a field of the name.
func plausible(t reflect.Type, name string) (any, bool) {
	byType := map[reflect.Type]any{
		reflect.TypeFor[time.Time]():              sampleTime.Add(time.Duration(len(name)) * time.Minute),
		reflect.TypeFor[time.Duration]():          time.Duration(1+len(name)) * time.Second,
		reflect.TypeFor[events.OrgID]():           SampleOrg,
		reflect.TypeFor[events.JobID]():           SampleJob,
		reflect.TypeFor[events.LeaseID]():         SampleLease,
		reflect.TypeFor[events.EventID]():         events.EventID(SampleLease) + "-1",
		reflect.TypeFor[events.InstanceID]():      events.InstanceID("i-0abc123def4567890"),
		reflect.TypeFor[events.MicroUSD]():        events.MicroUSD(12_345_678),
		reflect.TypeFor[events.PerInstanceHour](): events.PerInstanceHour(1_035_300_001),
		reflect.TypeFor[events.CapacityType]():    events.Spot,
		reflect.TypeFor[events.Outcome]():         events.Succeeded,
		reflect.TypeFor[events.Cause]():           events.CauseNotice,
		reflect.TypeFor[events.Purpose]():         events.ForReplace,
		reflect.TypeFor[events.SpotMode]():        events.SpotAuto,
		reflect.TypeFor[events.MicroHours]():      events.MicroHours(1_500_000),
	}
	if v, ok := byType[t]; ok {
		return v, true
	}
	if t.Kind() != reflect.String {
		v, ok := map[string]int{"epoch": 2, "n": 1, "gang_size": 1, "count": 1, "speed_pct": 100, "step": 120}[name]
		return v, ok && t.Kind() != reflect.Bool
	}
	byName := map[string]string{
		"seller": "aws", "region": "us-east-1", "zone": "use1-az1", "instance_type": "p3.2xlarge", "vendor": "nvidia",
		"model": "V100", "form": "SXM2", "country": "US", "by": "ada", "os": "linux", "arch": "amd64", "source": "imds",
		"action": "terminate", "signal": "SIGUSR1", "kind": "no_capacity", "code": "InsufficientInstanceCapacity",
		"ended_by": "seller", "clock": "control", "rule": "uniform-progress", "category": "compute", "framework": "hf",
		"dir": "checkpoints", "run": "python train.py", "setup": "pip install -r requirements.txt", "on_budget": "stop",
		"prefer": "cheapest", "countries": "DE", "path": "checkpoint-120/model.safetensors", "envs-key": "LR", "envs": "1.10",
		"hours_on_s-key": "V100", "labels-key": "ticket", "labels": "42", "current_gpu": "V100",
		"digest": strings.Repeat("ab", 32), "hash": strings.Repeat("cd", 32), "weights": strings.Repeat("ef", 32),
		"key": "U" + strings.Repeat("A", 55),
	}
	v, ok := byName[name]
	return v, ok
}
