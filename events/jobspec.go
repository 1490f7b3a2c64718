package events

import "time"

// Attribution says who pays and under which headings. It is fixed at submission
// and travels in the body of every job, lease and money event.
type Attribution struct {
	Org     OrgID             `json:"org"`
	Team    string            `json:"team,omitempty"`
	Project string            `json:"project,omitempty"`
	Labels  map[string]string `json:"labels,omitempty"`
}

// JobSpec is what a user asked for, after the job file was read: plain data,
// no YAML, nothing left to interpret.
type JobSpec struct {
	Name      string            `json:"name"`
	Setup     string            `json:"setup,omitempty"` // shell, once per machine, before the first run
	Run       string            `json:"run"`             // shell, the trainer
	Workdir   *Archive          `json:"workdir,omitempty"`
	Mounts    []Mount           `json:"mounts,omitempty"`    // files besides the working directory
	Caches    []string          `json:"caches,omitempty"`    // directories below ~ that machines keep for the organisation's next jobs
	Envs      map[string]string `json:"envs,omitempty"`      // literal text: "1.10" stays "1.10"
	Secrets   []string          `json:"secrets,omitempty"`   // names only, sorted; the values travel sealed, see SealedSecrets
	OnNotice  []Hook            `json:"on_notice,omitempty"` // run in this order
	Resources Resources         `json:"resources"`
	Policy    Policy            `json:"policy"`
}

// Archive is a content-addressed tar of files of the user in the checkpoint store.
type Archive struct {
	Object string `json:"object"` // object name in the store
	Hash   string `json:"hash"`   // BLAKE3-256, hex
	Bytes  int64  `json:"bytes"`
	Origin string `json:"origin,omitempty"` // for people: the repository and commit it was made from
}

// Mount is an archive that is unpacked into a directory before setup, or the
// files of a source. The directory, or the one file of a source, is below the
// home directory when Path begins with "~", else below the working directory.
type Mount struct {
	Path    string  `json:"path"`
	Archive Archive `json:"archive,omitzero"`
	// Source is where machines fetch the files from by themselves, by a URL such
	// as s3://bucket/prefix; "": they are in the archive.
	Source string `json:"source,omitempty"`
}

// Hook is a script of the user's that runs beside the trainer when the seller
// gives notice. It gets TimeoutS seconds, or what is left of the notice if that is less.
type Hook struct {
	Run      string `json:"run"`
	TimeoutS int64  `json:"timeout_s,omitempty"` // control seconds; 0: all of the notice
}

// Resources says which machines are good enough.
type Resources struct {
	Accelerators   []Accelerator   `json:"accelerators,omitempty"` // any of; empty: any machine
	VCPU           int             `json:"vcpu,omitempty"`         // at least
	RAMMiB         int             `json:"ram_mib,omitempty"`      // at least
	DiskGB         int             `json:"disk_gb,omitempty"`      // at least
	InstanceType   string          `json:"instance_type,omitempty"`
	Places         []Place         `json:"places,omitempty"` // any of; empty: anywhere
	MaxHourlyPrice PerInstanceHour `json:"max_hourly_price,omitempty"`
}

// Accelerator is a GPU model and how many of it.
type Accelerator struct {
	Model string `json:"model"`
	Count int    `json:"count"`
}

// Place narrows where to buy; an empty field is any.
type Place struct {
	Seller string `json:"seller,omitempty"`
	Region string `json:"region,omitempty"`
	Zone   string `json:"zone,omitempty"`
}

// SpotMode says which capacity types a job accepts.
type SpotMode string

// The three modes of policy.spot.policy.
const (
	SpotOnly     SpotMode = "spot"
	SpotAuto     SpotMode = "auto"
	OnDemandOnly SpotMode = "on-demand"
)

// AnyCountry among the countries of a job lets it run where nobody says where it is.
const AnyCountry = "any"

// Policy is our key of the job file.
type Policy struct {
	Budget       MicroUSD         `json:"budget"`                   // hard, total
	Deadline     time.Time        `json:"deadline,omitzero"`        // market time; zero: none
	MaxDurationS int64            `json:"max_duration_s,omitempty"` // market seconds of life; 0: none
	Checkpoint   CheckpointPolicy `json:"checkpoint"`
	Spot         SpotPolicy       `json:"spot"`
	OnBudget     string           `json:"on_budget,omitempty"` // "stop" (default) or "pause"
	Prefer       string           `json:"prefer,omitempty"`    // "cheapest" (default), "fastest", "deadline"
	Countries    []string         `json:"countries,omitempty"` // any of; empty: any that is known; AnyCountry: unknown ones too
	Trust        []Trust          `json:"trust,omitempty"`     // whose machines; empty: own and data centres'
	Work         Work             `json:"work"`
	// ProgressTimeoutS is how long, in control seconds, a job may go without a
	// step or a checkpoint before it counts as stalled. 0: nobody said, and the
	// agent goes by what it has seen of the trainer's own rhythm; -1: it never does.
	ProgressTimeoutS int64 `json:"progress_timeout_s,omitempty"`
	// RestartOnExit are exit codes of the trainer after which it is always
	// started again; such restarts do not count toward MaxRestarts.
	RestartOnExit []int `json:"restart_on_exit,omitempty"`
	// MaxRestarts is how often in all the trainer is started again after it
	// failed by itself. 0: nobody said, the default rule holds; -1: never.
	MaxRestarts int `json:"max_restarts,omitempty"`
}

// CheckpointPolicy says how the job's state is saved.
type CheckpointPolicy struct {
	Dir       string `json:"dir,omitempty"`        // relative to the job's directory; default "checkpoints"
	IntervalS int64  `json:"interval_s,omitempty"` // control seconds; 0: the trainer's own rhythm
	// IntervalAuto: the agent chooses, from what a save costs the trainer and how
	// often such machines are taken back: 30 s to 1 h. Of a trainer that saves on no
	// signal, or ends on it, nothing is asked.
	IntervalAuto bool   `json:"interval_auto,omitempty"`
	Signal       string `json:"signal,omitempty"`    // sent to the trainer on a notice, e.g. "SIGUSR1"; "": none
	GraceS       int64  `json:"grace_s,omitempty"`   // how long the trainer may take to save on it
	Framework    string `json:"framework,omitempty"` // as framework.Names; "": detected
	Marker       string `json:"marker,omitempty"`    // plain: the file that says complete
	Keep         int    `json:"keep,omitempty"`      // committed checkpoints kept; 0: 3
	SharePct     int    `json:"share_pct,omitempty"` // of the link that uploads may take while nothing presses, 1 to 100; 0: 50
}

// SpotPolicy says when reclaimable capacity is taken and left.
type SpotPolicy struct {
	Mode         SpotMode `json:"policy"`
	ReturnToSpot *bool    `json:"return_to_spot,omitempty"` // nil: yes
	MinSavingPct int      `json:"min_saving_pct,omitempty"` // of the running price, for a voluntary move; 0: 5
	DwellS       int64    `json:"dwell_s,omitempty"`        // market seconds between voluntary moves; 0: the default
}

// Returns says whether the job goes back to spot when that pays.
func (s SpotPolicy) Returns() bool { return s.ReturnToSpot == nil || *s.ReturnToSpot }

// Work is how much there is to do, so that time left can be estimated.
type Work struct {
	Steps    int64            `json:"steps,omitempty"`
	HoursOnS map[string]int64 `json:"hours_on_s,omitempty"` // GPU model ("*": any) -> market seconds for all of it
}

// On returns the market time the whole work takes on a GPU model, and whether anybody said so.
func (w Work) On(model string) (time.Duration, bool) {
	s, ok := w.HoursOnS[model]
	if !ok {
		s, ok = w.HoursOnS["*"]
	}
	return time.Duration(s) * time.Second, ok
}

// Timers are the settled waits of contracts.md. All are control time but Dwell.
type Timers struct {
	Heartbeat time.Duration `json:"heartbeat"` // an agent renews its hold this often
	Hold      time.Duration `json:"hold"`      // without renewal the agent stops committing and keeps training
	Lost      time.Duration `json:"lost"`      // no heartbeat seen for this long: seek a replacement
	Fence     time.Duration `json:"fence"`     // a fenced agent has its process tree dead within this
	Silence   time.Duration `json:"silence"`   // no contact at all: save, stop, end the machine
	Settle    time.Duration `json:"settle"`    // a seller's list shows a create within this
	GC        time.Duration `json:"gc"`        // no instance lives longer unowned
	Boot      time.Duration `json:"boot"`      // from launch to the agent's join; then the lease is given up
	Dwell     time.Duration `json:"dwell"`     // market time between voluntary moves
}

// DefaultTimers are the settled values.
func DefaultTimers() Timers {
	return Timers{
		Heartbeat: 5 * time.Second, Hold: 30 * time.Second, Lost: 35 * time.Second, Fence: 10 * time.Second,
		Silence: 15 * time.Minute, Settle: 2 * time.Minute, GC: 10 * time.Minute, Boot: 10 * time.Minute,
		Dwell: 30 * time.Minute,
	}
}

// Divide returns the timers with every control-time wait divided by n, as demo does; Dwell is market time and stays.
func (t Timers) Divide(n int) Timers {
	d := time.Duration(n)
	return Timers{t.Heartbeat / d, t.Hold / d, t.Lost / d, t.Fence / d, t.Silence / d, t.Settle / d, t.GC / d, t.Boot / d, t.Dwell}
}
