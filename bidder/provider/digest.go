package provider

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
)

// Digest tells requests apart: two of the same digest ask for the same. A seller
// keeps it with the machine, so that a token that comes with another request is a
// Conflict. It is 32 hex digits. Machines outlive programs, so a field that is added
// to LaunchSpec has to be left out of its JSON while it is empty.
func (s LaunchSpec) Digest() string {
	text, err := json.Marshal(s)
	if err != nil {
		return "" // strings, numbers and bytes always have a text
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16])
}
