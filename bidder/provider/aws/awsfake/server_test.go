package awsfake

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/spotferry/spotferry/bidder/provider/providertest"
	"github.com/spotferry/spotferry/events"
)

const signed = "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20261201/us-west-2/ec2/aws4_request, SignedHeaders=host;x-amz-date, Signature=" +
	"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

func now() events.Moment { return events.Moment{Control: time.Now(), Market: time.Now()} }

// TestTheFakeHasEC2sManners asks what no well-behaved client asks.
func TestTheFakeHasEC2sManners(t *testing.T) {
	t.Parallel()
	backend := providertest.New(providertest.Config{Seller: "aws", Now: now, Offers: []events.Offer{providertest.SampleOffer("aws", "us-west-2", events.DollarPerHour)}})
	s := New(Config{Backend: backend, Now: now})
	for _, tc := range []struct {
		name, authorization, form string
		status                    int
		says                      string
	}{
		{"not signed", "", "Action=DescribeInstances&Version=2016-11-15", 403, "MissingAuthenticationToken"},
		{"signed with a password", "Basic dXNlcjpwdw==", "Action=DescribeInstances&Version=2016-11-15", 403, "MissingAuthenticationToken"},
		{"signed for another service", strings.Replace(signed, "/ec2/", "/s3/", 1), "Action=DescribeInstances&Version=2016-11-15", 403, "MissingAuthenticationToken"},
		{"an action that is none", signed, "Action=SellEverything&Version=2016-11-15", 400, "InvalidAction"},
		{"an old version", signed, "Action=DescribeInstances&Version=2009-01-01", 400, "NoSuchVersion"},
		{"a page too small", signed, "Action=DescribeInstances&Version=2016-11-15&MaxResults=1", 400, "InvalidParameterValue"},
		{"a page token of its own making", signed, "Action=DescribeInstances&Version=2016-11-15&NextToken=abc", 400, "InvalidNextToken"},
		{"a type that is none", signed, "Action=DescribeInstanceTypes&Version=2016-11-15&InstanceType.1=p9.huge", 400, "InvalidInstanceType"},
		{"a machine that is none", signed, "Action=TerminateInstances&Version=2016-11-15&InstanceId.1=i-1", 400, "InvalidInstanceID.NotFound"},
		{"two machines at once", signed, "Action=RunInstances&Version=2016-11-15&MinCount=1&MaxCount=2", 400, "InvalidParameterValue"},
		{"no image", signed, "Action=RunInstances&Version=2016-11-15&MinCount=1&MaxCount=1", 400, "MissingParameter"},
		{"a cap that is too low to be one", signed, "Action=RunInstances&Version=2016-11-15&MinCount=1&MaxCount=1&ImageId=ami-1&InstanceMarketOptions.MarketType=spot&InstanceMarketOptions.SpotOptions.MaxPrice=0.001", 400, "InvalidParameterValue"},
		{"user data that is plain", signed, "Action=RunInstances&Version=2016-11-15&MinCount=1&MaxCount=1&ImageId=ami-1&UserData=***", 400, "InvalidUserData.Malformed"},
		{"a zone that is none", signed, "Action=RunInstances&Version=2016-11-15&MinCount=1&MaxCount=1&ImageId=ami-1&Placement.AvailabilityZone=us-west-2x", 400, "InvalidParameterValue"},
		{"zones", signed, "Action=DescribeAvailabilityZones&Version=2016-11-15", 200, "<zoneName>us-west-2b</zoneName><zoneId>us-west-2a</zoneId>"},
		{"prices end with an empty token", signed, "Action=DescribeSpotPriceHistory&Version=2016-11-15", 200, "<spotPrice>1.000000</spotPrice>"},
		{"prices end with an empty token, still", signed, "Action=DescribeSpotPriceHistory&Version=2016-11-15", 200, "<nextToken></nextToken>"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(tc.form))
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			r.Header.Set("X-Amz-Date", "20261201T000000Z")
			if tc.authorization != "" {
				r.Header.Set("Authorization", tc.authorization)
			}
			w := httptest.NewRecorder()
			s.ServeHTTP(w, r)
			body, err := io.ReadAll(w.Body)
			if err != nil || w.Code != tc.status || !strings.Contains(string(body), tc.says) {
				t.Errorf("status %d, %s; want %d with %s", w.Code, body, tc.status, tc.says)
			}
		})
	}
	if n := len(backend.Intervals()); n != 0 {
		t.Errorf("%d machines were sold", n)
	}
}
