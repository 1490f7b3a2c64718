package schema

import (
	"bytes"
	"encoding/json"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/invopop/jsonschema"
	validator "github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/events/eventstest"
)

var update = flag.Bool("update", false, "write the schemas and samples that the types of today give")

// generate returns every file of this package that is written by program.
func generate(t *testing.T) map[string][]byte {
	t.Helper()
	r := &jsonschema.Reflector{
		AllowAdditionalProperties: true, // fields are added; readers skip what they do not know
		ExpandedStruct:            true,
		Mapper:                    scalar,
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(root) // comments are found by path relative to the module
	if err := r.AddGoComments("github.com/spotferry/spotferry", "./events"); err != nil {
		t.Fatal(err)
	}
	out := map[string][]byte{}
	for _, row := range events.Table {
		out[row.SchemaFile()] = bodySchema(t, r, row)
		out["golden/"+row.SchemaFile()] = sampleFile(t, row)
	}
	return out
}

// scalar describes the types whose JSON is not what their kind suggests.
func scalar(t reflect.Type) *jsonschema.Schema {
	switch t {
	case reflect.TypeFor[events.MicroUSD]():
		return &jsonschema.Schema{Type: "string", Pattern: `^-?[0-9]+\.[0-9]{6}$`, Description: "US dollars, exact to the micro-dollar"}
	case reflect.TypeFor[events.PerInstanceHour]():
		return &jsonschema.Schema{Type: "string", Pattern: `^-?[0-9]+\.[0-9]{9}$`, Description: "US dollars an hour for the whole instance"}
	case reflect.TypeFor[time.Duration]():
		return &jsonschema.Schema{Type: "integer", Description: "nanoseconds"}
	}
	return nil
}

// bodySchema describes the one JSON object in which attribution, finality and fact stand side by side.
func bodySchema(t *testing.T, r *jsonschema.Reflector, row events.EventType) []byte {
	t.Helper()
	fact := reflect.TypeOf(row.New()).Elem()
	r.AdditionalFields = func(in reflect.Type) []reflect.StructField {
		if in != fact {
			return nil
		}
		finality := reflect.StructField{Name: "Finality", Type: reflect.TypeFor[events.Finality](), Tag: `json:"finality" jsonschema:"enum=provisional,enum=final"`}
		return append(reflect.VisibleFields(reflect.TypeFor[events.Attribution]()), finality)
	}
	s := r.ReflectFromType(fact)
	s.ID = jsonschema.ID(row.SchemaURI())
	s.Title = row.Name()
	s.Description = row.Meaning
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return append(nullable(t, b), '\n')
}

// nullable lets lists and maps be null where Go writes them so: when they are
// empty and the field says nothing about leaving them out.
func nullable(t *testing.T, b []byte) []byte {
	t.Helper()
	var tree any
	if err := json.Unmarshal(b, &tree); err != nil {
		t.Fatal(err)
	}
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, x := range v {
				walk(x)
			}
		case map[string]any:
			properties, _ := v["properties"].(map[string]any)
			required, _ := v["required"].([]any)
			for _, name := range required {
				p, _ := properties[name.(string)].(map[string]any)
				_, isMap := p["additionalProperties"]
				if kind := p["type"]; kind == "array" || kind == "object" && isMap {
					p["type"] = []any{kind, "null"}
				}
			}
			for _, x := range v {
				walk(x)
			}
		}
	}
	walk(tree)
	out, err := json.MarshalIndent(tree, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func sampleFile(t *testing.T, row events.EventType) []byte {
	t.Helper()
	m, err := events.Encode(eventstest.Sample(row))
	if err != nil {
		t.Fatal(err)
	}
	s := sample{Subject: m.Subject, Headers: map[string]string{}, Body: m.Body}
	for k := range m.Header {
		s.Headers[k] = m.Get(k)
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestFilesAreThoseOfTheTypes(t *testing.T) {
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	want := generate(t)
	for name, b := range want {
		if *update {
			if err := os.WriteFile(filepath.Join(here, name), b, 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if have, err := files.ReadFile(name); err != nil || !bytes.Equal(have, b) {
			t.Errorf("%s is not what the types of today give: run go test ./events/schema -update and read the difference; once released, a sample may not change", name)
		}
	}
	err = fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if _, ok := want[name]; ok {
			return nil
		}
		if *update {
			return os.Remove(filepath.Join(here, name))
		}
		t.Errorf("%s belongs to no type", name)
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// validate checks a body against the schema of its type.
func validate(t *testing.T, row events.EventType, body []byte) error {
	t.Helper()
	b, err := Of(row)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := validator.UnmarshalJSON(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	c := validator.NewCompiler()
	c.DefaultDraft(validator.Draft2020)
	c.AssertFormat()
	if err := c.AddResource(row.SchemaURI(), doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile(row.SchemaURI())
	if err != nil {
		t.Fatal(err)
	}
	v, err := validator.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	return s.Validate(v)
}

func TestPublishedSamples(t *testing.T) {
	t.Parallel()
	for _, row := range events.Table {
		t.Run(row.Family+"."+row.Event, func(t *testing.T) {
			t.Parallel()
			m, err := Sample(row)
			if err != nil {
				t.Fatal(err)
			}
			if err := validate(t, row, m.Body); err != nil {
				t.Errorf("its schema refuses it: %v", err)
			}
			e, err := events.Decode(m)
			if err != nil {
				t.Fatalf("today's decoder refuses it: %v", err)
			}
			again, err := events.Encode(e)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(again, m) {
				t.Errorf("today's encoder writes\n%s %v\n%s\nthe sample is\n%s %v\n%s", again.Subject, again.Header, again.Body, m.Subject, m.Header, m.Body)
			}
		})
	}
}

func TestSchemasTakeWhatTheEncoderWritesForNothing(t *testing.T) {
	t.Parallel()
	for _, row := range events.Table {
		e := eventstest.Sample(row)
		e.Attribution = events.Attribution{Org: e.Attribution.Org}
		e.Fact = reflect.ValueOf(row.New()).Elem().Interface()
		m, err := events.Encode(e)
		if err != nil {
			t.Fatal(err)
		}
		if err := validate(t, row, m.Body); err != nil {
			t.Errorf("%s with nothing set: %v", row.Name(), err)
		}
	}
}

func TestSchemasTakeFieldsOfLaterVersionsAndNoWrongTypes(t *testing.T) {
	t.Parallel()
	for _, row := range events.Table {
		m, err := Sample(row)
		if err != nil {
			t.Fatal(err)
		}
		later := strings.Replace(string(m.Body), "{", `{"field_of_a_later_version":{"x":1},`, 1)
		if err := validate(t, row, []byte(later)); err != nil {
			t.Errorf("%s with a field more: %v", row.Name(), err)
		}
		wrong := strings.Replace(string(m.Body), `"org":"acme"`, `"org":7`, 1)
		if validate(t, row, []byte(wrong)) == nil {
			t.Errorf("%s takes a number for org", row.Name())
		}
	}
}
