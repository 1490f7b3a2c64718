package aws

import (
	"maps"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"pgregory.net/rapid"

	"github.com/spotferry/spotferry/bidder/provider/providertest"
	"github.com/spotferry/spotferry/events"
)

func TestLabelsComeBackFromTagsAsTheyWere(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		spec := providertest.SampleSpec(spot)
		spec.Labels = rapid.MapOfN(rapid.StringN(0, 40, 80), rapid.StringN(0, 300, 600), 0, 6).Draw(t, "labels")
		spec.Pool.Gang = rapid.IntRange(1, 4).Draw(t, "gang")
		tags, err := tagsOf("test", spec, "01j-1-1")
		if err != nil {
			t.Fatal(err)
		}
		if len(tags) > maxTags {
			t.Fatalf("%d tags", len(tags))
		}
		keys := map[string]bool{}
		for _, tag := range tags {
			if len(*tag.Key) > 128 || len(*tag.Value) > maxTagValue || keys[*tag.Key] || strings.HasPrefix(*tag.Key, "aws:") {
				t.Fatalf("tag %q has %d bytes", *tag.Key, len(*tag.Value))
			}
			keys[*tag.Key] = true
		}
		shuffled := rapid.Permutation(tags).Draw(t, "order")
		got := readTags(shuffled)
		if got.mark != "test" || got.lease != "01j-1-1" || got.spec != spec.Digest() || got.asked == nil {
			t.Fatalf("read %+v", got)
		}
		if !maps.Equal(got.asked.Labels, spec.Labels) || got.asked.Gang != spec.Pool.Gang || got.asked.Zone != spec.Pool.Zone {
			t.Fatalf("read %+v, want %+v", got.asked, spec)
		}
	})
}

func TestTagsThatCannotBeAreRefused(t *testing.T) {
	t.Parallel()
	spec := providertest.SampleSpec(spot)
	spec.Labels = map[string]string{"long": strings.Repeat("x", 9000)}
	if _, err := tagsOf("test", spec, "01j-1-1"); err == nil || !strings.Contains(err.Error(), "labels") {
		t.Errorf("9000 bytes of labels: %v", err)
	}
	spec.Labels = map[string]string{"bytes": "\xff"}
	if _, err := tagsOf("test", spec, "01j-1-1"); err == nil {
		t.Error("a label that cannot be read back was taken")
	}
	for name, value := range map[string]string{"no base 64": "***", "no JSON": "Tm8gSlNPTg==", "cut off": "eyJ6IjoidXN3"} {
		c := readTags(append(mustTags(t), tag(tagData+"99", value)))
		if c.asked != nil {
			t.Errorf("%s: read as %+v", name, c.asked)
		}
	}
}

// mustTags are tags without data.
func mustTags(t *testing.T) (out []types.Tag) {
	t.Helper()
	tags, err := tagsOf("test", providertest.SampleSpec(spot), "01j-1-1")
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range tags {
		if !strings.HasPrefix(*x.Key, tagData) {
			out = append(out, x)
		}
	}
	return out
}

func TestRequestsThatDifferInAnythingHaveAnotherDigest(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	spec := providertest.SampleSpec(spot)
	add := func() { seen[spec.Digest()] = true }
	add()
	spec.MaxPrice++
	add()
	spec.UserData = append(spec.UserData, ' ')
	add()
	spec.Labels["more"] = ""
	add()
	spec.Pool.Capacity = events.OnDemand
	add()
	if len(seen) != 5 {
		t.Errorf("five requests have %d digests", len(seen))
	}
}
