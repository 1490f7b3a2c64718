package local

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spotferry/spotferry/bidder/trace"
	"github.com/spotferry/spotferry/events"
)

// The files of evidence, one JSON object a line. They are written by the seller's
// side alone and are for whoever wants to check the control plane's accounts.
const (
	meterEvidence = "meter.jsonl"
	killsEvidence = "kills.jsonl"
)

// meterRow is one price of one machine's bill. Times are market time.
type meterRow struct {
	Instance   events.InstanceID `json:"instance"`
	Token      string            `json:"token"`
	Pool       string            `json:"pool"`
	Start      time.Time         `json:"start"` // the machine's, the same in all its rows
	End        time.Time         `json:"end"`
	EndedBy    string            `json:"ended_by"`
	PriceNano  int64             `json:"price_nano"`
	PriceFrom  time.Time         `json:"price_from"`
	BilledFrom time.Time         `json:"billed_from"` // the time charged at this price
	BilledTo   time.Time         `json:"billed_to"`
	GrainS     int64             `json:"grain_s"`
	Aligned    bool              `json:"aligned_grain"`
	MinimumS   int64             `json:"minimum_s"`
	FreeS      int64             `json:"free_if_reclaimed_s"`
	Amount     int64             `json:"amount_micros"`
}

// killRow is one kill, or one warning that was withdrawn.
type killRow struct {
	Target   string            `json:"target"` // "machine"
	PID      int               `json:"pid"`    // the agent's; 0 if nothing was killed
	Time     time.Time         `json:"t"`      // control time
	Kind     trace.Kind        `json:"kind"`
	DrawnAt  string            `json:"drawn_at"`
	Instance events.InstanceID `json:"instance"`
	Token    string            `json:"token"`
	Pool     string            `json:"pool"`
	EndedBy  string            `json:"ended_by,omitempty"` // who was first: a warned machine may be given back before its deadline
}

// appendRows adds rows to an evidence file in one write, so that rows of several
// hosts do not mix.
func appendRows(path string, rows []any) error {
	text, err := lines(rows)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Close())
}

func lines(rows []any) ([]byte, error) {
	var text []byte
	for _, r := range rows {
		row, err := json.Marshal(r)
		if err != nil {
			return nil, err
		}
		text = append(append(text, row...), '\n')
	}
	return text, nil
}

// appendOnce adds an instance's rows, or those of them that are not there yet.
// A writer that was killed left at most a torn last line, which goes first: nobody
// else writes while the file is locked.
func appendOnce(path string, id events.InstanceID, rows []any) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return err
	}
	defer f.Close() // and with it the lock
	if err := lockFully(f); err != nil {
		return fmt.Errorf("locking %s: %w", path, err)
	}
	before, err := io.ReadAll(f)
	if err != nil {
		return err
	}
	whole := before[:bytes.LastIndexByte(before, '\n')+1]
	text, err := lines(rows[min(rowsOf(whole, id), len(rows)):])
	if err != nil {
		return err
	}
	if err := f.Truncate(int64(len(whole))); err != nil {
		return err
	}
	if _, err := f.WriteAt(text, int64(len(whole))); err != nil {
		return err
	}
	return f.Sync()
}

// rowsOf counts an instance's rows.
func rowsOf(text []byte, id events.InstanceID) (n int) {
	for l := range bytes.Lines(text) {
		var row struct {
			Instance events.InstanceID `json:"instance"`
		}
		if json.Unmarshal(l, &row) == nil && row.Instance == id {
			n++
		}
	}
	return n
}

// finish makes the bill final: evidence first, then the reading by which
// everyone knows. Repeating it changes nothing.
func finish(p place, r record, m trace.Market, e ending) error {
	bill := bill(r.stay(m, e.Market, e.By))
	if r.Evidence != "" {
		var rows []any
		for _, l := range bill {
			rows = append(rows, meterRow{
				Instance: r.ID, Token: r.Token, Pool: r.Spec.Pool.String(), Start: r.Start, End: e.Market, EndedBy: e.By,
				PriceNano: int64(l.price), PriceFrom: l.since, BilledFrom: clockTime(l.from), BilledTo: clockTime(l.to),
				GrainS: r.Offer.Terms.GrainS, Aligned: r.Offer.Terms.AlignedGrain, MinimumS: r.Offer.Terms.MinimumS,
				FreeS: r.Offer.Terms.FreeIfReclaimedS, Amount: l.amount,
			})
		}
		if err := appendOnce(filepath.Join(r.Evidence, meterEvidence), r.ID, rows); err != nil {
			return fmt.Errorf("metering %s: %w", r.ID, err)
		}
	}
	return write(p.path(meterFile), reading{r.ID, total(bill), e.Market, true})
}
