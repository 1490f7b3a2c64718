package azure

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/spotferry/spotferry/events"
)

// Tags of our machines. What a machine was bought as takes several, since a tag
// holds little: spotferry-facts-00, -01 and so on.
const (
	markTag  = "spotferry-mark"
	tokenTag = "spotferry-token"
	factsTag = "spotferry-facts-"
)

const (
	maxTag  = 256 // bytes of a value
	maxTags = 40  // for the facts; a resource has up to 50
)

// facts is what a machine carries of itself, so that a list can tell it without
// any record of ours. It has no secrets: whoever reads the subscription sees it.
type facts struct {
	Token  string                 `json:"token"`
	Mark   string                 `json:"mark"`
	Pool   events.Pool            `json:"pool"`
	Price  events.PerInstanceHour `json:"price"`
	Terms  events.Terms           `json:"terms"`
	Labels map[string]string      `json:"labels,omitempty"`
	Digest string                 `json:"digest"` // of what was asked for
}

// tags writes the facts.
func (f facts) tags() (map[string]*string, error) {
	told, err := json.Marshal(f)
	if err != nil {
		return nil, fmt.Errorf("writing labels into tags: %w", err)
	}
	text := base64.RawURLEncoding.EncodeToString(told)
	if len(text) > maxTag*maxTags {
		return nil, fmt.Errorf("labels have %d bytes with what else is kept; up to %d fit into tags", len(told), maxTag*maxTags*3/4)
	}
	out := map[string]*string{markTag: &f.Mark, tokenTag: &f.Token}
	for n := 0; len(text) > 0; n++ {
		part := text[:min(len(text), maxTag)]
		out[fmt.Sprintf("%s%02d", factsTag, n)] = &part
		text = text[len(part):]
	}
	return out, nil
}

var errFacts = errors.New("its tags do not say what it was bought as")

// factsOf reads what a machine carries. What is there of another environment, or
// was copied from another machine, is not its own.
func (c *Client) factsOf(name string, tags map[string]*string) (facts, error) {
	var f facts
	var text strings.Builder
	for n := range maxTags {
		part := tags[fmt.Sprintf("%s%02d", factsTag, n)]
		if part == nil {
			break
		}
		text.WriteString(*part)
	}
	told, err := base64.RawURLEncoding.DecodeString(text.String())
	if err != nil || json.Unmarshal(told, &f) != nil {
		return facts{}, errFacts
	}
	if f.Mark != c.cfg.Mark || f.Token == "" || c.names.Of(f.Token) != name {
		return facts{}, errFacts
	}
	return f, nil
}

func text(p *string) string {
	if p == nil {
		return ""
	}
	return *p
}

func pointer[T any](v T) *T { return &v }
