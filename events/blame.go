package events

import (
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
)

// blame finds the field of a value of type t that b cannot fill, as a path with
// dots, or "". The standard decoder names the field only for types of its own:
// not for a time or an amount of money, whose own methods refuse.
func blame(b []byte, t reflect.Type) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if _, own := reflect.New(t).Interface().(json.Unmarshaler); own {
		return ""
	}
	switch t.Kind() {
	case reflect.Struct:
		return blameField(b, t)
	case reflect.Slice:
		var items []json.RawMessage
		if json.Unmarshal(b, &items) != nil {
			return ""
		}
		for i, item := range items {
			if path, bad := blameValue(item, t.Elem(), strconv.Itoa(i)); bad {
				return path
			}
		}
	}
	return ""
}

func blameField(b []byte, t reflect.Type) string {
	var fields map[string]json.RawMessage
	if json.Unmarshal(b, &fields) != nil {
		return ""
	}
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		raw, there := fields[name]
		if !there || f.Anonymous {
			continue
		}
		if path, bad := blameValue(raw, f.Type, name); bad {
			return path
		}
	}
	return ""
}

// blameValue says whether raw cannot fill a value of type t, and the path to what cannot.
func blameValue(raw []byte, t reflect.Type, name string) (path string, bad bool) {
	if json.Unmarshal(raw, reflect.New(t).Interface()) == nil {
		return "", false
	}
	if below := blame(raw, t); below != "" {
		return name + "." + below, true
	}
	return name, true
}
