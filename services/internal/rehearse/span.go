package rehearse

import (
	"fmt"
	"strings"
	"time"
)

// span is a duration for people: two digits that matter.
func span(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < time.Minute:
		return strings.TrimSuffix(fmt.Sprintf("%.1f", d.Seconds()), ".0") + " s"
	}
	return fmt.Sprintf("%.1f min", d.Minutes())
}

func millis(ms int64) string { return span(time.Duration(ms) * time.Millisecond) }
