// Package named makes the names of machines out of tokens, for sellers where the
// name is what tells ours from others', and a repetition from another purchase.
package named

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"

	"github.com/spotferry/spotferry/events"
)

// Names are those of one installation's machines at one seller. They begin with
// what its mark gives, so that machines of another are never taken for ours.
type Names struct {
	prefix string
	most   int
	valid  *regexp.Regexp
}

// New makes them for a mark. A name has at most most bytes and matches valid.
func New(mark string, most int, valid *regexp.Regexp) Names {
	return Names{"sf-" + Digest(mark)[:8] + "-", most, valid}
}

// Of is the machine's name for a token. A token that a name cannot be made of, as
// names have no case, has its digest instead.
func (n Names) Of(token string) string {
	name := n.prefix + token
	if len(name) <= n.most && n.valid.MatchString(name) {
		return name
	}
	return n.hashed() + Digest(token)[:40]
}

// hashed is what names begin with whose token is a digest: an h for the f.
func (n Names) hashed() string { return "sh" + n.prefix[2:] }

// Ours says whether a machine's name is of this installation.
func (n Names) Ours(name string) bool {
	return strings.HasPrefix(name, n.prefix) || strings.HasPrefix(name, n.hashed())
}

// Pattern matches the names of this installation and no other, as a regular expression.
func (n Names) Pattern() string { return "s[fh]" + n.prefix[2:] + ".*" }

// Token is what a name was made of, "" if it cannot be told.
func (n Names) Token(name string) string {
	token, ok := strings.CutPrefix(name, n.prefix)
	if !ok || events.CheckToken("token", token) != nil {
		return ""
	}
	return token
}

// Digest is of some parts, in this order and apart: 64 hex digits.
func Digest(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d:%s", len(p), p)
	}
	return hex.EncodeToString(h.Sum(nil))
}
