package azure

import (
	"regexp"
	"strings"
)

const maxName = 64 // of a machine with Linux

var machineName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)

// here reads a resource's id: the name of the machine, if it is one in our group.
func (c *Client) here(id string) (name string, ok bool) {
	parts := strings.Split(id, "/")
	if len(parts) != 9 || !strings.EqualFold(parts[4], c.cfg.ResourceGroup) || !strings.EqualFold(parts[7], "virtualMachines") {
		return "", false
	}
	return strings.ToLower(parts[8]), true
}
