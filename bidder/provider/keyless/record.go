package keyless

import (
	"bytes"
	"compress/flate"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"time"

	"github.com/spotferry/spotferry/events"
)

// Record is what a machine carries of its purchase.
type Record struct {
	Token   string                 `json:"t"`
	Mark    string                 `json:"m"`
	Request string                 `json:"r"` // LaunchSpec.Digest of what was asked for; "": not known
	Pool    events.Pool            `json:"p"`
	Price   events.PerInstanceHour `json:"c"`
	Started time.Time              `json:"s"` // market
	Terms   events.Terms           `json:"b"`
	Labels  map[string]string      `json:"l,omitempty"`
}

// At is the record of a machine that is bought now: the last moment before it can exist.
func (r Record) At(now events.Moment) Record {
	r.Started = now.Market.Round(0).UTC()
	return r
}

// Pack writes the record as text that can stand in any label: letters, digits, - and _.
func (r Record) Pack() (string, error) {
	plain, err := json.Marshal(r)
	if err != nil {
		return "", err
	}
	var out bytes.Buffer
	w, err := flate.NewWriter(&out, flate.BestCompression)
	if err == nil {
		_, err = w.Write(plain)
	}
	if err == nil {
		err = w.Close()
	}
	return base64.RawURLEncoding.EncodeToString(out.Bytes()), err
}

// mostRecord bounds what a record may unpack to.
const mostRecord = 64 << 10

// Unpack reads what Pack writes.
func Unpack(s string) (Record, error) {
	var r Record
	packed, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil {
		return r, err
	}
	plain, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(packed)), mostRecord+1))
	if err != nil {
		return r, err
	}
	if len(plain) > mostRecord {
		return r, errors.New("the record is too long")
	}
	if err := json.Unmarshal(plain, &r); err != nil {
		return r, err
	}
	if r.Token == "" || r.Mark == "" {
		return r, errors.New("the record names no token or no mark")
	}
	return r, nil
}

// Bare is the record of a machine that is ours by its name and carries nothing else.
func Bare(token, mark string, pool events.Pool, started time.Time) Record {
	return Record{
		Token: token, Mark: mark, Pool: pool, Started: started, Terms: events.Terms{GrainS: 1},
		Labels: map[string]string{"env": mark, "lease": token},
	}
}
