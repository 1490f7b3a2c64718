package jobfile

import (
	"strings"

	"go.yaml.in/yaml/v3"
)

const (
	// maxValues bounds what is looked at, however few bytes aliases take to say it.
	maxValues = 20_000
	maxMerges = 16 // levels of <<
	maxDepth  = 16 // aliases of aliases
)

func placeOf(n *yaml.Node) place { return place{n.Line, n.Column} }

// pair is a key and its value as they count after << is followed.
type pair struct {
	key  *yaml.Node
	name string
	val  *yaml.Node
}

// target follows aliases. What they lead to stands where it was written.
func (r *reader) target(n *yaml.Node) *yaml.Node {
	for range maxDepth {
		if n.Kind != yaml.AliasNode || n.Alias == nil {
			break
		}
		n = n.Alias
	}
	return n
}

// visit counts a value; false means that there have been too many, which it says once.
func (r *reader) visit(n *yaml.Node) bool {
	r.values++
	if r.values == maxValues+1 {
		r.refuse(placeOf(n), "", "write the values out, or fewer of them", "aliases and lists expand to more than %d values", maxValues)
	}
	return r.values <= maxValues
}

// pairs returns the entries of a mapping, own keys before merged ones. A key
// that stands twice is refused, since readers differ on which one counts.
func (r *reader) pairs(path string, n *yaml.Node) []pair {
	p := pairing{reader: r, path: path, seen: map[string]*yaml.Node{}}
	p.add(n, 0)
	return p.out
}

type pairing struct {
	*reader
	path string
	seen map[string]*yaml.Node
	out  []pair
}

func (p *pairing) add(n *yaml.Node, depth int) {
	if depth > maxMerges {
		p.refuse(placeOf(n), p.path, "write the keys out", "<< leads in a circle or more than %d levels deep", maxMerges)
		return
	}
	var merges []*yaml.Node
	own := map[string]*yaml.Node{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := p.target(n.Content[i]), p.target(n.Content[i+1])
		if !p.visit(k) {
			return
		}
		if k.Tag == "!!merge" {
			merges = append(merges, v)
			continue
		}
		if k.Kind != yaml.ScalarNode {
			p.refuse(placeOf(k), p.path, "write a plain key", "%s as a key", kindOf(k))
			continue
		}
		if first, twice := own[k.Value]; twice {
			p.refuse(placeOf(k), join(p.path, k.Value), "keep one of them", "%s stands twice, first on line %d", quoted(k.Value), first.Line)
			continue
		}
		own[k.Value] = k
		if _, taken := p.seen[k.Value]; !taken {
			p.seen[k.Value] = k
			p.out = append(p.out, pair{k, k.Value, v})
		}
	}
	for _, m := range merges {
		p.merge(m, depth)
	}
}

func (p *pairing) merge(m *yaml.Node, depth int) {
	switch m.Kind {
	case yaml.MappingNode:
		p.add(m, depth+1)
	case yaml.SequenceNode:
		for _, item := range m.Content {
			item = p.target(item)
			if !p.visit(item) {
				return
			}
			if item.Kind == yaml.MappingNode {
				p.add(item, depth+1)
			}
		}
	default:
		p.refuse(placeOf(m), p.path, "merge a mapping, as in <<: *defaults", "<< is given %s", kindOf(m))
	}
}

// items returns the values of a sequence, aliases followed.
func (r *reader) items(n *yaml.Node) []*yaml.Node {
	var out []*yaml.Node
	for _, item := range n.Content {
		item = r.target(item)
		if !r.visit(item) {
			return nil
		}
		out = append(out, item)
	}
	return out
}

// text returns a scalar as it was written: 1.10, 007 and yes stay what they are.
func (r *reader) text(path string, n *yaml.Node) (string, bool) {
	if n.Kind != yaml.ScalarNode {
		r.refuse(placeOf(n), path, "give one value", "%s is %s", path, kindOf(n))
		return "", false
	}
	if !plainTag(n) {
		r.refuse(placeOf(n), path, "remove the tag", "%s has the tag %s, which is not read", path, quoted(n.Tag))
		return "", false
	}
	return n.Value, true
}

// isNull says whether a value is left empty: nothing, ~ or null without quotes.
func isNull(n *yaml.Node) bool {
	return n.Kind == yaml.ScalarNode && n.Tag == "!!null"
}

// plainTag says whether a scalar is untagged or has one of YAML's own tags for text and numbers.
func plainTag(n *yaml.Node) bool {
	if n.Style&yaml.TaggedStyle == 0 {
		return true
	}
	switch n.Tag {
	case "!!str", "!!int", "!!float", "!!bool", "!!null", "!!timestamp":
		return true
	}
	return false
}

func kindOf(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	case yaml.ScalarNode:
		if isNull(n) {
			return "nothing"
		}
		return "a single value"
	}
	return "an alias that leads nowhere"
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

func leaf(path string) string { return path[strings.LastIndexByte(path, '.')+1:] }
