// Package schema publishes what events look like: a JSON Schema (draft 2020-12)
// for the body of every type, and one sample of each with its headers.
//
// Both are written by this package's tests from the Go types and their comments
// (go test ./events/schema -update) and never by hand. From the first release
// on a published sample does not change: old events must be read, and must hash
// to what their successors say they hash to. A new field is therefore left out
// of the JSON when it is zero, and a change of meaning is a new version.
package schema

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"

	"github.com/spotferry/spotferry/events"
)

//go:embed *.json golden/*.json
var files embed.FS

// FS holds the schemas, <family>.<event>.v<version>.json, and below golden the
// samples under the same names.
func FS() fs.FS { return files }

// Of returns the JSON Schema of the bodies of events of type t.
func Of(t events.EventType) ([]byte, error) {
	return files.ReadFile(t.SchemaFile())
}

// sample is how a message stands in a file.
type sample struct {
	Subject string            `json:"subject"`
	Headers map[string]string `json:"headers"`
	Body    json.RawMessage   `json:"body"`
}

// Sample returns the published sample of type t, as it would come from the bus.
func Sample(t events.EventType) (events.Message, error) {
	name := "golden/" + t.SchemaFile()
	b, err := files.ReadFile(name)
	if err != nil {
		return events.Message{}, err
	}
	return parseSample(name, b)
}

func parseSample(name string, b []byte) (events.Message, error) {
	var s sample
	if err := json.Unmarshal(b, &s); err != nil {
		return events.Message{}, fmt.Errorf("sample %s: %w", name, err)
	}
	var body bytes.Buffer // on one line, as it travels
	if err := json.Compact(&body, s.Body); err != nil {
		return events.Message{}, fmt.Errorf("sample %s: %w", name, err)
	}
	m := events.Message{Subject: s.Subject, Header: map[string][]string{}, Body: body.Bytes()}
	for k, v := range s.Headers {
		m.Header[k] = []string{v}
	}
	return m, nil
}
