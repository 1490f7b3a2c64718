package awsfake

import (
	"bytes"
	"encoding/base64"
	"encoding/xml"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/events"
)

// query is one call: lists are numbered from 1, what is nested stands behind a dot.
type query struct {
	region string
	form   url.Values
}

func (q query) get(name string) string { return q.form.Get(name) }

func (q query) list(name string) []string {
	var out []string
	for n := 1; q.form.Has(fmt.Sprintf("%s.%d", name, n)); n++ {
		out = append(out, q.form.Get(fmt.Sprintf("%s.%d", name, n)))
	}
	return out
}

// filters are the filters by name.
func (q query) filters() map[string][]string {
	out := map[string][]string{}
	for n := 1; q.form.Has(fmt.Sprintf("Filter.%d.Name", n)); n++ {
		out[q.get(fmt.Sprintf("Filter.%d.Name", n))] = q.list(fmt.Sprintf("Filter.%d.Value", n))
	}
	return out
}

// tags are those that the machine itself gets.
func (q query) tags() map[string]string {
	out := map[string]string{}
	for n := 1; q.form.Has(fmt.Sprintf("TagSpecification.%d.ResourceType", n)); n++ {
		at := fmt.Sprintf("TagSpecification.%d.", n)
		if q.get(at+"ResourceType") != "instance" {
			continue
		}
		for m := 1; q.form.Has(fmt.Sprintf("%sTag.%d.Key", at, m)); m++ {
			out[q.get(fmt.Sprintf("%sTag.%d.Key", at, m))] = q.get(fmt.Sprintf("%sTag.%d.Value", at, m))
		}
	}
	return out
}

// page is the part of n rows that is asked for, and the token of the next one:
// empty at the end.
func (q query) page(n, most int) (from, to int, next string, err error) {
	if text := q.get("MaxResults"); text != "" {
		asked, err := strconv.Atoi(text)
		if err != nil || asked < 5 || asked > 1000 {
			return 0, 0, "", &fault{http.StatusBadRequest, "InvalidParameterValue", "MaxResults must be 5 to 1000"}
		}
		most = min(most, asked)
	}
	if token := q.get("NextToken"); token != "" {
		plain, err := base64.URLEncoding.DecodeString(token)
		if err == nil {
			from, err = strconv.Atoi(string(plain))
		}
		if err != nil || from < 0 || from > n {
			return 0, 0, "", &fault{http.StatusBadRequest, "InvalidNextToken", "the token is not one of ours"}
		}
	}
	to = min(from+most, n)
	if to < n {
		next = base64.URLEncoding.EncodeToString([]byte(strconv.Itoa(to)))
	}
	return from, to, next, nil
}

// fault is an error in EC2's words.
type fault struct {
	status  int
	code    string
	message string
}

func (f *fault) Error() string { return f.code + ": " + f.message }

// words are EC2's for what the seller behind says.
var words = map[provider.Kind]fault{
	provider.UnknownOutcome: {http.StatusInternalServerError, "InternalError", ""},
	provider.NoCapacity:     {http.StatusInternalServerError, "InsufficientInstanceCapacity", ""},
	provider.PriceTooLow:    {http.StatusBadRequest, "SpotMaxPriceTooLow", ""},
	provider.OfferGone:      {http.StatusBadRequest, "Unsupported", ""},
	provider.Quota:          {http.StatusBadRequest, "VcpuLimitExceeded", ""},
	provider.Throttled:      {http.StatusServiceUnavailable, "RequestLimitExceeded", ""},
	provider.Auth:           {http.StatusForbidden, "UnauthorizedOperation", ""},
	provider.Invalid:        {http.StatusBadRequest, "InvalidParameterValue", ""},
	provider.Conflict:       {http.StatusBadRequest, "IdempotentParameterMismatch", ""},
	provider.NotFound:       {http.StatusBadRequest, "InvalidInstanceID.NotFound", ""},
	provider.Transient:      {http.StatusServiceUnavailable, "Unavailable", ""},
}

// inWords is an error of the seller behind in EC2's words; false if it has no
// answer to give, or gave one that is none.
func inWords(err error, form url.Values) (f fault, answered bool) {
	if own, ok := errors.AsType[*fault](err); ok {
		return *own, true
	}
	e, ok := errors.AsType[*provider.Error](err)
	if !ok || e.Code == "" && e.Err != nil {
		return fault{}, false
	}
	f = words[e.Kind]
	if e.Kind == provider.Quota && form.Get("InstanceMarketOptions.MarketType") == "spot" {
		f.code = "MaxSpotInstanceCountExceeded"
	}
	f.message = e.Message
	return f, true
}

// writeFailure answers as a seller does that failed like this. What was never
// answered is cut off; what makes no sense is a proxy's page with a good status.
func writeFailure(w http.ResponseWriter, form url.Values, err error) {
	f, answered := inWords(err, form)
	if answered {
		writeError(w, &f)
		return
	}
	if _, typed := errors.AsType[*provider.Error](err); typed {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Content-Type", "text/html")
	fmt.Fprint(w, "<html><head><title>502 Bad Gateway</title></head><body><center><h1>502 Bad Gateway</h1></center></body></html>")
}

func writeError(w http.ResponseWriter, f *fault) {
	w.Header().Set("Content-Type", "text/xml;charset=UTF-8")
	w.WriteHeader(f.status)
	type failure struct {
		XMLName struct{} `xml:"Response"`
		Code    string   `xml:"Errors>Error>Code"`
		Message string   `xml:"Errors>Error>Message"`
		ID      string   `xml:"RequestID"`
	}
	text, err := xml.Marshal(failure{Code: f.code, Message: f.message, ID: requestID})
	if err == nil {
		fmt.Fprintf(w, "%s%s", xml.Header, text)
	}
}

// requestID is that of every answer.
const requestID = "00000000-0000-4000-8000-000000000001"

// writeAnswer writes an answer's parts as the action's document.
func writeAnswer(w http.ResponseWriter, action string, answer any) {
	text, err := xml.Marshal(answer)
	if err != nil {
		writeError(w, &fault{http.StatusInternalServerError, "InternalError", err.Error()})
		return
	}
	// Its root has the action's name, which no type of ours has.
	inner := text[bytes.IndexByte(text, '>')+1 : bytes.LastIndexByte(text, '<')]
	w.Header().Set("Content-Type", "text/xml;charset=UTF-8")
	fmt.Fprintf(w, "%s<%sResponse xmlns=\"http://ec2.amazonaws.com/doc/%s/\"><requestId>%s</requestId>%s</%sResponse>",
		xml.Header, action, version, requestID, inner, action)
}

// dollars reads a highest price; nothing is as much as there is.
func dollars(text string) (events.PerInstanceHour, error) {
	if text == "" {
		return 1 << 62, nil
	}
	most, err := events.ParsePerInstanceHour(text)
	if err != nil || most <= events.DollarPerHour/1000 {
		return 0, &fault{http.StatusBadRequest, "InvalidParameterValue", fmt.Sprintf("Invalid value %q for MaxPrice", strings.ToValidUTF8(text, ""))}
	}
	return most, nil
}
