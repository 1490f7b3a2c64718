package jobfile

import (
	"encoding/json"
	"strings"
)

// SchemaID names the schema of job files. A change that refuses a file which was
// accepted before gets another.
const SchemaID = "https://spotferry.dev/schema/job/v1.json"

// Schema is a JSON Schema of job files, for editors: the same keys as Read, by
// the same table. It knows kinds, words and numbers, and nothing of what needs a
// clock, a disk, a command line or two keys at once; and it sees values as YAML
// resolves them, so that 1_000 is a number to it.
func Schema() ([]byte, error) {
	root := object{
		"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": SchemaID,
		"title": "Spotferry job file", "description": "A SkyPilot task file with one key more: policy.",
		"required": []string{"run", "policy"},
	}
	fill := map[string]object{"": root}
	for _, k := range table() {
		in := fill[parent(k.path)]
		if in == nil { // below a key that has a shape of its own
			continue
		}
		s := k.schema()
		if k.verdict == reads && shapes()[k.path].of == nil {
			inner := object{"type": "object"}
			fill[k.path] = inner
			s = orNothing(inner)
			if k.path == "policy" {
				inner["required"], s = []string{"budget"}, inner
			}
			if also := shapes()[k.path].or; also != nil {
				s["anyOf"] = append(s["anyOf"].([]object), also)
			}
		}
		s["description"] = about(k)
		in.property(leaf(k.path), s)
	}
	return json.MarshalIndent(root, "", "  ")
}

type object map[string]any

// property adds a property; "*" is every name that has none.
func (o object) property(name string, s object) {
	o["type"] = "object"
	if _, closed := o["additionalProperties"]; !closed {
		o["additionalProperties"] = false
	}
	if name == "*" {
		o["additionalProperties"] = s
		return
	}
	p, ok := o["properties"].(object)
	if !ok {
		p = object{}
		o["properties"] = p
	}
	p[name] = s
}

// schema is what may be the value of a key.
func (k key) schema() object {
	switch k.verdict {
	case warns:
		return object{"deprecated": true}
	case refuses: // what is refused may stand there with nothing in it
		return object{"enum": []any{nil, false, []any{}, object{}}}
	}
	sh := shapes()[k.path]
	if sh.must {
		return sh.of
	}
	return orNothing(sh.of)
}

// orNothing allows a key to be left empty: it asks for nothing then.
func orNothing(s object) object {
	return object{"anyOf": []object{{"enum": []any{nil, []any{}, object{}}}, s}}
}

func about(k key) string {
	switch k.verdict {
	case warns:
		return "Changes nothing: " + k.why + ". " + sentence(k.remedy)
	case refuses:
		return "Refused: " + k.why + ". " + sentence(k.remedy)
	}
	return shapes()[k.path].about
}

func sentence(s string) string { return strings.ToUpper(s[:1]) + s[1:] + "." }
