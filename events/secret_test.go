package events

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

func TestASecretIsShownByNothing(t *testing.T) {
	t.Parallel()
	const canary = "canary-9f31"
	s := NewSecret(canary)
	hidden := struct{ inner Secret }{s}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d", "%p", "%T"} {
		for _, v := range []any{s, &s, []Secret{s}, map[string]Secret{"A": s}, hidden, &hidden, fmt.Errorf("x: %v", s)} {
			if got := fmt.Sprintf(verb, v); strings.Contains(got, canary) || strings.Contains(got, fmt.Sprintf("%x", canary)) {
				t.Errorf("%s of a %T shows it: %s", verb, v, got)
			}
		}
	}
	for _, v := range []any{s, &s, map[string]Secret{"A": s}, struct{ S Secret }{s}} {
		if b, err := json.Marshal(v); err == nil {
			t.Errorf("a %T is written down as %s", v, b)
		}
	}
	if s.Reveal() != canary || (Secret{}).Reveal() != "" {
		t.Error("Reveal does not give the text")
	}
}

func TestPackedSecretsAreThoseOfOneJob(t *testing.T) {
	t.Parallel()
	in := map[string]Secret{"HF_TOKEN": NewSecret("a\nb\x00"), "EMPTY": NewSecret("")}
	b, err := PackSecrets("j1", in)
	if err != nil {
		t.Fatal(err)
	}
	out, err := UnpackSecrets("j1", b)
	if err != nil || !reflect.DeepEqual(in, out) {
		t.Errorf("unpacked %v, %v", out, err)
	}
	if _, err := UnpackSecrets("j2", b); err == nil || strings.Contains(err.Error(), "HF_TOKEN") {
		t.Errorf("another job's: %v", err)
	}
	if _, err := UnpackSecrets("j1", []byte(`{"values": {"A": "canary"`)); err == nil || strings.Contains(err.Error(), "canary") {
		t.Errorf("what is none: %v", err)
	}
}
