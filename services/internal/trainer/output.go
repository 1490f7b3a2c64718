package trainer

import (
	"encoding/json"
	"io"
	"math"
	"time"
)

// output prints one JSON object per line. That a line cannot be printed does
// not stop training: whoever reads them may have gone.
type output struct{ w io.Writer }

func (o output) line(v any) {
	data, err := json.Marshal(v)
	if err != nil {
		return // a number that JSON cannot hold, which training refuses anyway
	}
	_, _ = o.w.Write(append(data, '\n'))
}

// loss is the line for every LogEvery steps. seconds counts from the start of
// this process.
func (o output) loss(step int, loss float32, epoch float64, took time.Duration) {
	o.line(struct {
		Loss    float32 `json:"loss"`
		Step    int     `json:"step"`
		Epoch   float64 `json:"epoch"`
		Seconds float64 `json:"seconds"`
	}{loss, step, epoch, millis(took)})
}

// event is a line about anything else. dir may be empty.
func (o output) event(name string, step int, dir string) {
	o.line(struct {
		Event string `json:"event"`
		Step  int    `json:"step"`
		Path  string `json:"path,omitempty"`
	}{name, step, dir})
}

// saved is the line at the end of a save.
func (o output) saved(step int, dir string, took time.Duration) {
	o.line(struct {
		Event   string  `json:"event"`
		Step    int     `json:"step"`
		Path    string  `json:"path"`
		Seconds float64 `json:"seconds"`
	}{"saved", step, dir, millis(took)})
}

func (o output) skipped(dir string, err error) {
	o.line(struct {
		Event string `json:"event"`
		Path  string `json:"path"`
		Error string `json:"error"`
	}{"skipped torn checkpoint", dir, err.Error()})
}

// millis is a duration in seconds, to the millisecond.
func millis(d time.Duration) float64 {
	return math.Round(d.Seconds()*1000) / 1000
}
