package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/bidder/provider/aws"
	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/services/internal/process"
	"github.com/spotferry/spotferry/services/internal/programs"
)

func parse(t *testing.T, args ...string) func(programs.Ground) (provider.Provider, error) {
	t.Helper()
	f := process.NewFlags("provider-aws", "sells", io.Discard)
	open := flags(f)
	if err := f.Read(args, func(string) string { return "" }); err != nil {
		t.Fatal(err)
	}
	return open
}

func ground() programs.Ground {
	now := func() events.Moment { return events.Moment{Control: time.Now(), Market: time.Now()} }
	return programs.Ground{Seller: "aws", Mark: "test", Now: now, Log: zap.NewNop(), Getenv: os.Getenv}
}

func TestFlagsSayWhatIsOfARegion(t *testing.T) {
	o := options{
		regions: []string{"us-east-1=ami-1", "eu-west-1=ami-2"}, groups: []string{"us-east-1=sg-1", "us-east-1=sg-2"},
		subnets: []string{"eu-west-1=euw1-az1=subnet-1"}, queues: []string{"eu-west-1=https://sqs.eu-west-1.amazonaws.com/1/q"},
	}
	got, err := o.places()
	want := []aws.Region{
		{Name: "us-east-1", Image: "ami-1", SecurityGroups: []string{"sg-1", "sg-2"}, Subnets: map[string]string{}},
		{Name: "eu-west-1", Image: "ami-2", Subnets: map[string]string{"euw1-az1": "subnet-1"}, Queue: "https://sqs.eu-west-1.amazonaws.com/1/q"},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("places = %+v, %v; want %+v", got, err, want)
	}
}

func TestFlagsThatMeanNothingAreRefused(t *testing.T) {
	for _, args := range [][]string{
		{}, {"--region", "us-east-1"}, {"--region", "us-east-1=ami-1", "--security-group", "sg-1"},
		{"--region", "us-east-1=ami-1", "--queue", "eu-west-1=https://q"}, {"--region", "us-east-1=ami-1", "--subnet", "us-east-1=subnet-1"},
	} {
		if _, err := parse(t, args...)(ground()); !errors.Is(err, process.ErrUsage) {
			t.Errorf("%v: %v, want a usage error", args, err)
		}
	}
	for _, args := range [][]string{
		{"--region", "us-east-1=ubuntu"}, {"--region", "us-east-1=ami-1", "--on-demand-prices", filepath.Join(t.TempDir(), "none.csv")},
	} {
		if _, err := parse(t, args...)(ground()); err == nil {
			t.Errorf("%v: opened", args)
		}
	}
}

func TestItOpensWithoutACall(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	p, err := parse(t, "--region", "us-east-1=ami-1", "--queue", "us-east-1=http://127.0.0.1:1/q", "--endpoint", "http://127.0.0.1:1")(ground())
	if err != nil || !provider.CapabilitiesOf(p).Notices {
		t.Errorf("%v, %v; want a seller that hears of interruptions", p, err)
	}
}
