package jobfile

import (
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/spotferry/spotferry/events"
)

// verdict is what becomes of a key.
type verdict string

const (
	reads   verdict = "read"
	warns   verdict = "warned" // the job runs as well without it
	refuses verdict = "refused"
)

// key is one row of the table. Below a key that reads a mapping stand rows of
// their own; "*" is every name that has none.
type key struct {
	path    string
	verdict verdict
	why     string // of what is warned about or refused
	remedy  string
	read    func(r *reader, path string, value *yaml.Node)
}

// Key says what becomes of one key of a job file, for documents and schemas.
type Key struct {
	Path    string `json:"path"`
	Verdict string `json:"verdict"` // "read", "warned", "refused"
	Why     string `json:"why,omitempty"`
	Remedy  string `json:"remedy,omitempty"`
}

// Keys lists every key that is known, in the order of the table.
func Keys() []Key {
	var out []Key
	for _, k := range table() {
		out = append(out, Key{k.path, string(k.verdict), k.why, k.remedy})
	}
	return out
}

const (
	inClear   = "it would stand in clear in the job's record, which is kept for ever"
	oneKind   = "this runs jobs that come to an end"
	noVolumes = "nothing that outlives a machine is mounted on it"
	bringThem = "bring files with file_mounts or the workdir, or fetch them in setup; save below policy.checkpoint.dir"
	ownCloud  = "it configures SkyPilot's own clusters"
	year      = 366 * 24 * time.Hour
)

// table is the one list of what may stand in a job file.
func table() []key {
	return []key{
		{path: "name", verdict: reads, read: (*reader).readName},
		{path: "setup", verdict: reads, read: script(func(s *events.JobSpec) *string { return &s.Setup })},
		{path: "run", verdict: reads, read: (*reader).readRun},
		{path: "workdir", verdict: reads, read: (*reader).readWorkdir},
		{path: "num_nodes", verdict: reads, read: (*reader).readNodes},
		{path: "envs", verdict: reads, read: (*reader).readEnvs},
		{path: "resources", verdict: reads, read: (*reader).mapping},
		{path: "policy", verdict: reads, read: (*reader).mapping},
		{path: "config", verdict: reads, read: (*reader).mapping},

		{path: "workdir.url", verdict: reads, read: (*reader).readRepositoryURL},
		{path: "workdir.ref", verdict: reads, read: (*reader).readRepositoryRef},
		{path: "secrets", verdict: reads, read: (*reader).readSecrets},
		{path: "file_mounts", verdict: reads, read: (*reader).readMounts},

		refused("managed_secrets", "there is no store of secrets to take them from", "name them below secrets and give each with --secret NAME"),
		refused("file_mounts_mapping", "it is written by SkyPilot's own client", "write file_mounts"),
		refused("volumes", noVolumes, bringThem),
		refused("volume_mounts", noVolumes, bringThem),
		refused("storage_mounts", noVolumes, bringThem),
		refused("service", oneKind, "serve elsewhere; run only the training here"),
		refused("pool", oneKind, "leave it out: machines are bought for each job"),
		warned("inputs", "sizes of inputs do not enter the choice of a machine", "leave it out"),
		warned("outputs", "sizes of outputs do not enter the choice of a machine", "leave it out"),
		refused("event_callback", "it would run your shell in the control plane", "follow the job's events instead (spotferry job events)"),
		refused("api_server_access", "a job has no access to the control plane", "leave it out"),
		warned("experimental", "it holds settings of SkyPilot's own", "leave it out"),

		{path: "resources.accelerators", verdict: reads, read: (*reader).readAccelerators},
		{path: "resources.infra", verdict: reads, read: (*reader).readInfra},
		{path: "resources.cloud", verdict: reads, read: placePart(func(p *events.Place) *string { return &p.Seller })},
		{path: "resources.region", verdict: reads, read: placePart(func(p *events.Place) *string { return &p.Region })},
		{path: "resources.zone", verdict: reads, read: placePart(func(p *events.Place) *string { return &p.Zone })},
		{path: "resources.cpus", verdict: reads, read: (*reader).readCPUs},
		{path: "resources.memory", verdict: reads, read: (*reader).readMemory},
		{path: "resources.disk_size", verdict: reads, read: (*reader).readDisk},
		{path: "resources.instance_type", verdict: reads, read: (*reader).readInstanceType},
		{path: "resources.any_of", verdict: reads, read: (*reader).readAnyOf},
		{path: "resources.ordered", verdict: reads, read: (*reader).readOrdered},
		{path: "resources.use_spot", verdict: reads, read: (*reader).readUseSpot},
		{path: "resources.max_hourly_cost", verdict: reads, read: (*reader).readMaxPrice},
		{path: "resources.labels", verdict: reads, read: (*reader).readLabels},
		{path: "resources.job_recovery", verdict: reads, read: (*reader).readRecovery},
		{path: "resources.job_recovery.strategy", verdict: reads, read: (*reader).readStrategy},
		{path: "resources.spot_recovery", verdict: reads, read: (*reader).readStrategy},
		{path: "resources.job_recovery.max_restarts_on_errors", verdict: reads, read: (*reader).readMaxRestarts},
		{path: "resources.job_recovery.recover_on_exit_codes", verdict: reads, read: (*reader).readRestartOnExit},
		refused("resources.accelerator_args", "it is for TPUs, which no seller here has", "ask for a GPU"),
		warned("resources.disk_tier", "disks are not told apart by speed", "leave it out"),
		warned("resources.network_tier", "networks are not told apart by speed", "leave it out"),
		refused("resources.local_disk", "sellers' offers do not tell local disks apart", "ask for disk_size"),
		refused("resources.ephemeral_storage", "sellers' offers do not tell local disks apart", "ask for disk_size"),
		refused("resources.volumes", noVolumes, bringThem),
		refused("resources.ports", "machines are never reached from outside", "let the job dial out"),
		refused("resources.image_id", "commands run on the machine itself; no image is started yet", "install what is needed in setup"),
		warned("resources.autostop", "a job's machine always ends with the job", "leave it out"),
		warned("resources.priority", "jobs do not queue for machines", "leave it out"),
		warned("resources.priority_class", "jobs do not queue for machines", "leave it out"),

		{path: "config.hooks", verdict: reads, read: (*reader).readHooks},
		refused("config.*", ownCloud, "leave it out"),

		{path: "policy.budget", verdict: reads, read: (*reader).readBudget},
		{path: "policy.deadline", verdict: reads, read: (*reader).readDeadline},
		{path: "policy.max_duration", verdict: reads, read: seconds(time.Second, year, func(s *events.JobSpec) *int64 { return &s.Policy.MaxDurationS })},
		{path: "policy.max_price", verdict: reads, read: (*reader).readMaxPrice},
		{path: "policy.progress_timeout", verdict: reads, read: seconds(10*time.Second, 30*24*time.Hour, func(s *events.JobSpec) *int64 { return &s.Policy.ProgressTimeoutS })},
		{path: "policy.on_budget", verdict: reads, read: choice(func(s *events.JobSpec) *string { return &s.Policy.OnBudget }, "stop", "pause")},
		{path: "policy.prefer", verdict: reads, read: choice(func(s *events.JobSpec) *string { return &s.Policy.Prefer }, "cheapest", "fastest", "deadline")},
		{path: "policy.countries", verdict: reads, read: (*reader).readCountries},
		{path: "policy.trust", verdict: reads, read: (*reader).readTrust},
		refused("policy.webhooks", "no webhook is called yet", "follow the job's events instead (spotferry job events)"),

		{path: "policy.caches", verdict: reads, read: (*reader).readCaches},

		{path: "policy.checkpoint", verdict: reads, read: (*reader).mapping},
		{path: "policy.checkpoint.dir", verdict: reads, read: (*reader).readCheckpointDir},
		{path: "policy.checkpoint.interval", verdict: reads, read: (*reader).readInterval},
		{path: "policy.checkpoint.framework", verdict: reads, read: (*reader).readFramework},
		{path: "policy.checkpoint.marker", verdict: reads, read: (*reader).readMarker},
		{path: "policy.checkpoint.keep", verdict: reads, read: whole(1, 1000, func(s *events.JobSpec) *int { return &s.Policy.Checkpoint.Keep })},
		{path: "policy.checkpoint.verify", verdict: reads, read: (*reader).readVerify},
		{path: "policy.checkpoint.on_notice", verdict: reads, read: (*reader).mapping},
		{path: "policy.checkpoint.on_notice.signal", verdict: reads, read: (*reader).readSignal},
		{path: "policy.checkpoint.on_notice.grace", verdict: reads, read: seconds(time.Second, time.Hour, func(s *events.JobSpec) *int64 { return &s.Policy.Checkpoint.GraceS })},

		{path: "policy.spot", verdict: reads, read: (*reader).mapping},
		{path: "policy.spot.policy", verdict: reads, read: (*reader).readSpotMode},
		{path: "policy.spot.wait_for_spot", verdict: reads, read: (*reader).readWaitForSpot},
		{path: "policy.spot.return_to_spot", verdict: reads, read: (*reader).readReturn},
		{path: "policy.spot.min_saving", verdict: reads, read: (*reader).readMinSaving},
		{path: "policy.spot.dwell", verdict: reads, read: seconds(time.Second, year, func(s *events.JobSpec) *int64 { return &s.Policy.Spot.DwellS })},

		{path: "policy.work", verdict: reads, read: (*reader).mapping},
		{path: "policy.work.steps", verdict: reads, read: whole(1, 1_000_000_000_000, func(s *events.JobSpec) *int64 { return &s.Policy.Work.Steps })},
		{path: "policy.work.hours_on", verdict: reads, read: (*reader).readHours},
		{path: "policy.work.tokens", verdict: reads, read: (*reader).readTokens},
	}
}

func refused(path, why, remedy string) key {
	return key{path: path, verdict: refuses, why: why, remedy: remedy}
}

func warned(path, why, remedy string) key {
	return key{path: path, verdict: warns, why: why, remedy: remedy}
}

// mapping hands every entry below path to its row.
func (r *reader) mapping(path string, n *yaml.Node) {
	if n.Kind != yaml.MappingNode {
		r.refuse(placeOf(n), path, "write its keys indented below it", "%s is %s", path, kindOf(n))
		return
	}
	for _, p := range r.pairs(path, n) {
		r.entry(path, p)
	}
}

func (r *reader) entry(path string, p pair) {
	full := join(path, p.name)
	k, known := r.keys[full]
	if !known {
		k, known = r.keys[join(path, "*")]
	}
	if !known || strings.Contains(p.name, ".") {
		r.unknown(path, p)
		return
	}
	if asksNothing(p.val) || k.verdict != reads && isFalse(p.val) {
		return
	}
	switch k.verdict {
	case refuses:
		r.refuse(placeOf(p.key), full, k.remedy, "%s is not done here: %s", full, k.why)
	case warns:
		r.warn(placeOf(p.key), full, k.remedy, "%s changes nothing: %s", full, k.why)
	case reads:
		r.at[full] = placeOf(p.val)
		k.read(r, full, p.val)
	}
}

func (r *reader) unknown(path string, p pair) {
	remedy := r.suggest(path, p.name)
	if strings.HasPrefix(p.name, "_") {
		remedy = "remove it; such keys are SkyPilot's own"
	}
	r.refuse(placeOf(p.key), path, remedy, "there is no key %s in %s", quoted(p.name), orTop(path))
}

func orTop(path string) string {
	if path == "" {
		return "a job file"
	}
	return path
}

// isFalse says whether a value switches off what its key could ask for.
func isFalse(n *yaml.Node) bool {
	return n.Kind == yaml.ScalarNode && n.Tag == "!!bool" && strings.EqualFold(n.Value, "false")
}

// asksNothing says whether a value is empty: no key asks for anything then.
func asksNothing(n *yaml.Node) bool {
	return isNull(n) || n.Kind != yaml.ScalarNode && len(n.Content) == 0
}
