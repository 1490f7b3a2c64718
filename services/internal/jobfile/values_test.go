package jobfile

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestParseSpanReadsWhatItWrites(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := time.Duration(rapid.Int64Range(1, 366*24*3600).Draw(t, "seconds")) * time.Second
		if got, ok := parseSpan(spanText(want)); !ok || got != want {
			t.Fatalf("parseSpan(%q) = %v, %t; want %v", spanText(want), got, ok, want)
		}
	})
}

func TestParseSpanNeverOverflows(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.StringMatching(`([0-9]{1,10}(\.[0-9]{1,10})?[dhmsx]){0,4}`).Draw(t, "span")
		if d, ok := parseSpan(s); ok && (d < 0 || d > 100*year) {
			t.Fatalf("parseSpan(%q) = %v", s, d)
		}
	})
}

func TestParseSpan(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]time.Duration{
		"90s": 90 * time.Second, "6.5h": 390 * time.Minute, "1d12h": 36 * time.Hour, "1h0m5s": time.Hour + 5*time.Second, "0.5d": 12 * time.Hour,
	} {
		if got, ok := parseSpan(s); !ok || got != want {
			t.Errorf("parseSpan(%q) = %v, %t; want %v", s, got, ok, want)
		}
	}
	for _, s := range []string{"", "5", "h", "-5h", "+5h", "5 h", "1:30", "1m1h", "1h1h", "5ms", "1e3s", "NaNs", "٣h", ".5h", "5.h", "200000d"} {
		if got, ok := parseSpan(s); ok {
			t.Errorf("parseSpan(%q) = %v, want a refusal", s, got)
		}
	}
}
