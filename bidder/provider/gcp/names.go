package gcp

import (
	"crypto/sha1"
	"fmt"
	"path"
	"regexp"
	"strings"

	"github.com/spotferry/spotferry/bidder/provider/named"
	"github.com/spotferry/spotferry/events"
)

// Labels of our machines. Their values can hold less than a label of ours.
const (
	markLabel  = "spotferry-mark"
	tokenLabel = "spotferry-token"
)

const maxName = 63

var plainName = regexp.MustCompile(`^[a-z]([-a-z0-9]*[a-z0-9])?$`)

// markValue is the mark as a label's value, unlike any other mark's.
func markValue(mark string) string {
	readable := events.Token(mark)
	return readable[:min(len(readable), 40)] + "-" + named.Digest(mark)[:8]
}

// tokenValue is a token as a label's value.
func tokenValue(token string) string {
	if label.MatchString(token) {
		return token
	}
	return named.Digest(token)[:40]
}

// requestID is the UUID, version 5, of a token in a project: the same for every
// repetition of the request.
func (c *Client) requestID(token string) string {
	h := sha1.New()
	h.Write([]byte("spotferry/" + c.cfg.Project + "/" + c.cfg.Mark + "/" + token))
	u := h.Sum(nil)[:16]
	u[6], u[8] = u[6]&0x0f|0x50, u[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
}

// instanceID is how the rest of the system names a machine: a name alone does not
// say in which zone to look.
func instanceID(zone, name string) events.InstanceID { return events.InstanceID(zone + "/" + name) }

func splitID(id events.InstanceID) (zone, name string, ok bool) {
	zone, name, ok = strings.Cut(string(id), "/")
	return zone, name, ok && plainName.MatchString(zone) && plainName.MatchString(name)
}

// last is the end of a URL: "zones/us-central1-a" is us-central1-a.
func last(url string) string {
	if url == "" {
		return ""
	}
	return path.Base(url)
}

// regionOf is the region of a zone: its name without the last part.
func regionOf(zone string) string {
	if n := strings.LastIndexByte(zone, '-'); n > 0 {
		return zone[:n]
	}
	return zone
}
