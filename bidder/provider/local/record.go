package local

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/bidder/trace"
	"github.com/spotferry/spotferry/events"
)

// Who ended an instance.
const (
	endedBySeller  = "seller"  // reclaimed
	endedByUs      = "us"      // Terminate
	endedByMachine = "machine" // its agent left
	endedByFault   = "fault"   // its host died
)

const hostDied = "the host died"

// The files of an instance's directory.
const (
	recordFile    = "instance.json"      // written before the directory has its name, never again
	lockFile      = "host.lock"          // held by the host for as long as it lives
	hostFile      = "host.json"          // who the host and the agent are
	terminateFile = "terminate"          // we want it gone
	endFile       = "end.json"           // the tree is dead
	meterFile     = "meter.json"         // the reading, final or not
	hostLog       = "host.log"           // what the host says
	agentLog      = "agent.log"          // what the agent says
	machineDir    = "machine"            // the machine's disk, gone with it
	drillFile     = "../../control.json" // of the seller; see Drill
)

// recordVersion changes when an older host could not play a newer record.
const recordVersion = 1

// record is what was sold. It is all that a host knows.
type record struct {
	Version  int                    `json:"version"`
	ID       events.InstanceID      `json:"id"`
	Token    string                 `json:"token"`
	Spec     provider.LaunchSpec    `json:"spec"`
	Launched time.Time              `json:"launched"`     // control time
	Start    time.Time              `json:"market_start"` // billing begins
	Price    events.PerInstanceHour `json:"price"`        // at Start
	Offer    events.Offer           `json:"offer"`        // the pool without price, times and stock
	Boot     time.Duration          `json:"boot"`         // market time until the machine runs
	Fate     []trace.Reclaim        `json:"fate"`         // what the market has in store for it
	Market   trace.Spec             `json:"market"`
	Clock    trace.Clock            `json:"clock"`
	Agent    []string               `json:"agent"` // command line
	Env      []string               `json:"env"`
	Evidence string                 `json:"evidence_dir,omitempty"`
}

// prices returns what was or will be in force until end, market time.
func (r record) prices(m trace.Market, end time.Time) []events.PriceFrom {
	bought := []events.PriceFrom{{From: r.Start, Price: r.Price}}
	if !r.Offer.Terms.FollowsMarket {
		return bought
	}
	return append(bought, trace.Prices(m, r.Spec.Pool, r.Start, end)[1:]...)
}

// stay is the bill's view of an instance, ended or as if it ended then.
func (r record) stay(m trace.Market, end time.Time, by string) stay {
	return stay{start: r.Start, end: end, endedBy: by, prices: r.prices(m, end), terms: r.Offer.Terms}
}

// process names a process. Pids come round again; with the start time, and the
// boot it counts from, they do not.
type process struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // clock ticks since boot
	Boot  string `json:"boot"`
}

// hostState is what a running host tells.
type hostState struct {
	Host   process `json:"host"`
	Agent  process `json:"agent,omitzero"` // zero until it was started
	Port   int     `json:"port"`           // of the metadata endpoint
	Cgroup string  `json:"cgroup,omitempty"`
}

// ending is how an instance ended. Once written it is true for ever.
type ending struct {
	Market  time.Time `json:"market_end"`
	Control time.Time `json:"control_end"`
	By      string    `json:"ended_by"`
	Detail  string    `json:"detail"`
}

// reading is meter.json.
type reading struct {
	Instance events.InstanceID `json:"instance"`
	Amount   int64             `json:"amount_micros"`
	Market   time.Time         `json:"market_time"` // of the reading
	Final    bool              `json:"final"`
}

// place is an instance's directory.
type place string

func (p place) path(name string) string { return filepath.Join(string(p), name) }
func (p place) machine() string         { return p.path(machineDir) }

func (p place) record() (record, error) {
	r, err := read[record](p.path(recordFile))
	if err == nil && r.Version != recordVersion {
		err = fmt.Errorf("%s has version %d, this program knows %d: use the program that wrote it", p.path(recordFile), r.Version, recordVersion)
	}
	return r, err
}

// find reads one of the files that may not be there yet.
func find[T any](p place, name string) (T, bool, error) {
	v, err := read[T](p.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return v, false, nil
	}
	return v, err == nil, err
}

func read[T any](path string) (T, error) {
	var v T
	data, err := os.ReadFile(path)
	if err != nil {
		return v, err
	}
	if err := json.Unmarshal(data, &v); err != nil {
		return v, fmt.Errorf("%s: %w: remove the directory if its machine is known to be gone", path, err)
	}
	return v, nil
}

// exists says whether p is there; a file that cannot be looked at is an error.
func exists(path string) (bool, error) {
	_, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

const idPrefix = "i-"

func instanceID(token string) events.InstanceID { return events.InstanceID(idPrefix + token) }

// tokenOf returns the token that an id was made of; false for an id that is not ours.
func tokenOf(id events.InstanceID) (string, bool) {
	token, ok := strings.CutPrefix(string(id), idPrefix)
	return token, ok && events.CheckToken("instance", token) == nil
}
