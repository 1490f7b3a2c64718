package azure

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/bidder/provider/azure/azurefake"
	"github.com/spotferry/spotferry/bidder/provider/named"
	"github.com/spotferry/spotferry/bidder/provider/providertest"
	"github.com/spotferry/spotferry/events"
)

// Whatever the Resource Manager answers, a list ends with an error of a read, and the
// credentials go nowhere else.
func TestHostileLists(t *testing.T) {
	t.Parallel()
	var stolen atomic.Int64
	thief := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { stolen.Add(1) }))
	defer thief.Close()
	say := func(s string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprint(w, strings.NewReplacer("HOST", r.Host, "THIEF", thief.URL).Replace(s))
		}
	}
	t.Run("lists", func(t *testing.T) {
		for name, serve := range map[string]http.HandlerFunc{
			"a page of HTML":             say("<html>"),
			"half an answer":             say(`{"value":[{"id":"/sub`),
			"a link to another host":     say(`{"value":[],"nextLink":"THIEF/x"}`),
			"pages that go round":        say(`{"value":[],"nextLink":"http://HOST/x?$skiptoken=1"}`),
			"another type than was said": say(`{"value":"none"}`),
			"a redirection": func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, thief.URL, http.StatusTemporaryRedirect)
			},
			"more than any answer can be": endless(`{"value":[],"x":"`, 50<<20),
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				s := httptest.NewServer(serve)
				defer s.Close()
				c, err := New(config(t, s.URL))
				if err != nil {
					t.Fatal(err)
				}
				_, err = c.List(t.Context())
				kindOf(t, err, provider.Transient)
				_, err = c.Offers(t.Context())
				kindOf(t, err, provider.Transient)
				if _, err = c.Launch(t.Context(), providertest.SampleSpec(spot), "t-1"); kindOf(t, err, provider.Transient).MaybeCreated {
					t.Error("nothing was asked to be created")
				}
			})
		}
	})
	if stolen.Load() > 0 {
		t.Errorf("%d calls went to another host", stolen.Load())
	}
}

// Rows that make no sense do not keep the others from being read.
func TestListsWithHolesAreRead(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"value":[null,{},{"id":"x"},{"id":"/subscriptions/s/resourceGroups/ferry/providers/Microsoft.Compute/virtualMachines/` +
			nameOf("test", "lost") + `","tags":{"spotferry-mark":"test"},"properties":null}],"nextLink":""}`))
	}))
	defer s.Close()
	c, err := New(config(t, s.URL))
	if err != nil {
		t.Fatal(err)
	}
	l, err := c.List(t.Context())
	if err != nil || !l.Complete || len(l.Instances) != 1 || l.Instances[0].Token != "lost" {
		t.Errorf("%+v, %v; want the machine that has lost its tags, since it costs money", l, err)
	}
}

// Machines of others are neither listed nor touched, whatever they are called.
func TestMachinesOfOthersAreLeftAlone(t *testing.T) {
	t.Parallel()
	r := newRig(t, azurefake.Config{})
	other := nameOf("other", "t-1")
	ours := nameOf("test", "t-1")
	r.fake.Foreign("ferry", "database", nil)
	r.fake.Foreign("ferry", other, map[string]string{markTag: "other"})
	r.fake.Foreign("ferry", ours, map[string]string{markTag: "other"})
	r.fake.Foreign("elsewhere", nameOf("test", "t-2"), map[string]string{markTag: "test"})
	l, err := r.client.List(t.Context())
	if err != nil || len(l.Instances) != 0 || !l.Complete {
		t.Errorf("the list is %+v, %v; want it empty", l, err)
	}
	for _, id := range []string{"database", other, ours} {
		kindOf(t, r.client.Terminate(t.Context(), events.InstanceID(id)), provider.Invalid)
	}
	_, err = r.client.Launch(t.Context(), providertest.SampleSpec(spot), "t-1")
	kindOf(t, err, provider.Conflict)
	if r.fake.Standing() != 4 || r.fake.Calls("Microsoft.Compute/virtualMachines/delete") != 0 {
		t.Errorf("%d of 4 machines stand, %d deletions", r.fake.Standing(), r.fake.Calls("Microsoft.Compute/virtualMachines/delete"))
	}
}

func nameOf(mark, token string) string { return named.New(mark, maxName, machineName).Of(token) }
