package aws

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/events"
)

// The tags of a machine of ours. What was asked for stands in as many data tags as it takes.
const (
	tagName  = "Name" // for people
	tagMark  = "spotferry:mark"
	tagLease = "spotferry:lease"
	tagSpec  = "spotferry:spec" // a digest of the request
	tagData  = "spotferry:data-"
)

// EC2's bounds.
const (
	maxTagValue = 256
	maxTags     = 50
)

// asked is what the data tags say. Its fields are never renamed: machines outlive
// the program that tagged them.
type asked struct {
	Zone     string              `json:"z"`
	Type     string              `json:"t"`
	Capacity events.CapacityType `json:"c"`
	Gang     int                 `json:"g"`
	Labels   map[string]string   `json:"l,omitempty"`
}

// tagsOf are the tags of a machine bought by this request. They are a function of
// it: EC2 counts them when it compares repeats.
func tagsOf(mark string, spec provider.LaunchSpec, token string) ([]types.Tag, error) {
	for k, v := range spec.Labels {
		if !utf8.ValidString(k) || !utf8.ValidString(v) {
			return nil, fmt.Errorf("label %q is not UTF-8", k)
		}
	}
	data, err := json.Marshal(asked{spec.Pool.Zone, spec.Pool.InstanceType, spec.Pool.Capacity, spec.Pool.Gang, spec.Labels})
	if err != nil {
		return nil, err
	}
	tags := []types.Tag{tag(tagName, token), tag(tagMark, mark), tag(tagLease, token), tag(tagSpec, spec.Digest())}
	text := base64.StdEncoding.EncodeToString(data)
	for n := 0; text != ""; n++ {
		size := min(len(text), maxTagValue)
		tags = append(tags, tag(fmt.Sprintf("%s%02d", tagData, n), text[:size]))
		text = text[size:]
	}
	if len(tags) > maxTags {
		return nil, fmt.Errorf("labels need %d tags and a machine has at most %d: use fewer or shorter ones", len(tags), maxTags)
	}
	return tags, nil
}

func tag(key, value string) types.Tag { return types.Tag{Key: &key, Value: &value} }

// carried is what a machine's tags say.
type carried struct {
	mark, lease, spec string
	asked             *asked // nil: nothing that can be read
}

func readTags(tags []types.Tag) carried {
	var c carried
	var data []types.Tag
	for _, t := range tags {
		switch key, value := aws.ToString(t.Key), aws.ToString(t.Value); {
		case key == tagMark:
			c.mark = value
		case key == tagLease:
			c.lease = value
		case key == tagSpec:
			c.spec = value
		case strings.HasPrefix(key, tagData):
			data = append(data, t)
		}
	}
	slices.SortFunc(data, func(a, b types.Tag) int { return cmp.Compare(*a.Key, *b.Key) })
	var text strings.Builder
	for _, t := range data {
		text.WriteString(aws.ToString(t.Value))
	}
	plain, err := base64.StdEncoding.DecodeString(text.String())
	var a asked
	if err == nil && len(data) > 0 && json.Unmarshal(plain, &a) == nil {
		c.asked = &a
	}
	return c
}
