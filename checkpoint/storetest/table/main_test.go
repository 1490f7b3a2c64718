package main

import (
	"strings"
	"testing"
)

func TestColumnsAreJoined(t *testing.T) {
	t.Parallel()
	in := `=== RUN TestConformance
    s3_test.go:44: 
        storetest | s3 | a put is whole | 12
        storetest | s3 | lists | 3
    mem_test.go:20: 
        storetest | mem | a put is whole | 7
        storetest | mem | lists | n/a: no | bars
`
	var out strings.Builder
	if err := run(strings.NewReader(in), &out); err != nil {
		t.Fatal(err)
	}
	want := `| promise | s3 | mem |
|---|---|---|
| a put is whole | 12 | 7 |
| lists | 3 | n/a a |

n/a a: no | bars
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}

func TestWhatIsNotHeldFails(t *testing.T) {
	t.Parallel()
	for name, in := range map[string]string{
		"no column":       "ok\n",
		"a zero":          "storetest | s3 | lists | 0\n",
		"a failure":       "storetest | s3 | lists | FAILED\n",
		"one not run":     "storetest | s3 | lists | not run\n",
		"one not reached": "storetest | s3 | lists | 1\nstoretest | mem | puts | 1\n",
	} {
		if err := run(strings.NewReader(in), new(strings.Builder)); err == nil {
			t.Errorf("%s passed", name)
		}
	}
}
