//go:build linux

package local

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/bidder/trace"
	"github.com/spotferry/spotferry/events"
)

var (
	toGoogle    = map[string]string{"Metadata-Flavor": "Google"}
	toMicrosoft = map[string]string{"Metadata": "true"}
)

// bornWith reads the user data, as the machine's seller gives it.
func bornWith() (int, string) {
	switch events.NoticeKind(os.Getenv(NoticeKindVariable)) {
	case events.NoticeGCP:
		status, _, body := request("GET", "/computeMetadata/v1/instance/attributes/user-data", toGoogle)
		return status, body
	case events.NoticeAzure:
		status, _, body := request("GET", "/metadata/instance/compute/userData?api-version=2021-02-01&format=text", toMicrosoft)
		data, err := base64.StdEncoding.DecodeString(body)
		if err != nil {
			return status, err.Error()
		}
		return status, string(data)
	}
	status, _, body := ask("/latest/user-data", newToken())
	return status, body
}

// told writes down what the environment says, and SIGTERM when it comes.
func told(out string) {
	got := make(chan os.Signal, 1)
	signal.Notify(got, syscall.SIGTERM)
	report(out, fmt.Sprintf("%s %ss %s", os.Getenv(NoticeKindVariable), os.Getenv(NoticeSecondsVariable), os.Getenv("GCE_METADATA_HOST")))
	report(out, (<-got).String())
}

// agree waits for an event and lets it begin.
func agree(out string) {
	const path = "/metadata/scheduledevents?api-version=2020-07-01"
	report(out, "waiting")
	for ; ; time.Sleep(10 * time.Millisecond) {
		var d struct{ Events []scheduled }
		_, _, body := request("GET", path, toMicrosoft)
		if err := json.Unmarshal([]byte(body), &d); err != nil || len(d.Events) == 0 {
			continue
		}
		report(out, d.Events[0].EventStatus)
		send("POST", path, fmt.Sprintf(`{"StartRequests":[{"EventId":%q}]}`, d.Events[0].EventID), toMicrosoft)
		return
	}
}

func TestASignalIsTheOnlyNotice(t *testing.T) {
	t.Parallel()
	r := newRigTold(t, events.NoticeSignal)
	r.launch(r.spot, role{Do: "told"}, "01j-1-1")
	if got := strings.TrimSpace(r.awaitReports(2)[1]); got != "signal 120s" {
		t.Errorf("the environment says %q", got)
	}
	r.drill(Reclaim{ID: "1", Token: "01j-1-1", NoticeS: 1})
	if got := r.awaitReports(3)[2]; got != "terminated" {
		t.Errorf("the agent heard %q", got)
	}
	if gone := r.awaitState("01j-1-1", provider.Gone); gone.EndedBy != "seller" {
		t.Errorf("ended by %s", gone.EndedBy)
	}
}

func TestEachSellerSpeaksItsOwnWay(t *testing.T) {
	t.Parallel()
	r := newRigTold(t, events.NoticeGCP)
	r.launch(r.spot, role{Do: "told"}, "01j-1-1")
	if got := r.awaitReports(2)[1]; !strings.HasPrefix(got, "gcp 120s 127.0.0.1:") {
		t.Errorf("the environment says %q", got)
	}
}

func TestAMachineThatAgreesIsTakenAtOnce(t *testing.T) {
	t.Parallel()
	r := newRigTold(t, events.NoticeAzure)
	r.launch(r.spot, role{Do: "agree"}, "01j-1-1")
	r.awaitReports(2)
	began := time.Now()
	r.drill(Reclaim{ID: "1", Token: "01j-1-1", NoticeS: 60})
	gone := r.awaitState("01j-1-1", provider.Gone)
	if took := time.Since(began); took > 25*time.Second || gone.EndedBy != "seller" {
		t.Errorf("taken by %s after %v, it had a minute", gone.EndedBy, took)
	}
	if got := r.reports()[2]; got != "Scheduled" {
		t.Errorf("the event was %s", got)
	}
	kills := evidence[killRow](r, killsEvidence)
	if len(kills) != 1 || kills[0].Kind != trace.Noticed {
		t.Errorf("kills %+v", kills)
	}
	r.meterIsRight(gone)
}
