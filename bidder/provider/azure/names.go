package azure

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"

	"github.com/spotferry/spotferry/events"
)

const maxName = 64 // of a machine with Linux

var machineName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)

func digest(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d:%s", len(p), p)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// namePrefix is what the names of an environment's machines begin with: the token
// follows, or with an h for the s a digest of it.
func namePrefix(mark string) string { return "sf-" + digest(mark)[:8] + "-" }

// name is the machine's name for a token. A token that a name cannot be made
// of, as names have no case, has its digest instead.
func (c *Client) name(token string) string {
	name := c.prefix + token
	if len(name) <= maxName && machineName.MatchString(name) {
		return name
	}
	return "sh" + c.prefix[2:] + digest(token)[:40]
}

// ours says whether a machine's name is of this environment.
func (c *Client) ours(name string) bool {
	return strings.HasPrefix(name, c.prefix) || strings.HasPrefix(name, "sh"+c.prefix[2:])
}

// tokenOf is the token that a name was made of, "" if it cannot be told.
func (c *Client) tokenOf(name string) string {
	token, ok := strings.CutPrefix(name, c.prefix)
	if !ok || events.CheckToken("token", token) != nil {
		return ""
	}
	return token
}

// here reads a resource's id: the name of the machine, if it is one in our group.
func (c *Client) here(id string) (name string, ok bool) {
	parts := strings.Split(id, "/")
	if len(parts) != 9 || !strings.EqualFold(parts[4], c.cfg.ResourceGroup) || !strings.EqualFold(parts[7], "virtualMachines") {
		return "", false
	}
	return strings.ToLower(parts[8]), true
}
