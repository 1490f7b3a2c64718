package jobfile

import "github.com/spotferry/spotferry/events"

// shape is how a key that is read looks to an editor.
type shape struct {
	about string
	of    object // nil: a mapping whose keys have rows of their own
	or    object // besides that mapping
	must  bool   // it may not be left empty
}

const (
	spanPattern  = `^([0-9]{1,9}(\.[0-9]{1,9})?d)?([0-9]{1,9}(\.[0-9]{1,9})?h)?([0-9]{1,9}(\.[0-9]{1,9})?m)?([0-9]{1,9}(\.[0-9]{1,9})?s)?$`
	placePattern = `^(\*|[A-Za-z0-9][A-Za-z0-9._-]{0,63})$`
	infraPattern = `^(\*|[A-Za-z0-9][A-Za-z0-9._-]{0,63})(/(\*|[A-Za-z0-9][A-Za-z0-9._-]{0,63})){0,2}$`
	gpuPattern   = `^\s*[A-Za-z][A-Za-z0-9._-]{0,63}\s*(:\s*([1-9]|[1-5][0-9]|6[0-4])\s*)?$`
	hereabouts   = `^[^$\x00]+$` // a path on this machine
	datePattern  = `^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$`
)

// shapes has one for every row that is read.
func shapes() map[string]shape {
	span := spanShape()
	return map[string]shape{
		"name":      {about: "What people call the job; its file's name if absent.", of: object{"type": scalarTypes(), "minLength": 1, "maxLength": maxName}},
		"setup":     {about: "Shell commands, once on every machine before the first run.", of: text()},
		"run":       {about: "Shell commands that train.", of: object{"type": scalarTypes(), "pattern": `\S`}, must: true},
		"workdir":   {about: "A directory that travels with the job, or a repository {url, ref}.", or: here()},
		"num_nodes": {about: "Machines at once; only 1 is done.", of: either(object{"const": 1}, object{"const": "1"})},
		"envs": {about: "Environment variables, kept as they are written. One left empty is given with --env.",
			of: object{"type": "object", "propertyNames": variableName(), "additionalProperties": object{"type": append(scalarTypes(), "null")}}},
		"secrets": {about: "Environment variables that nobody sees: NAME: null, given with --secret.", of: either(
			object{"type": "object", "propertyNames": variableName(), "additionalProperties": object{"type": append(scalarTypes(), "null")}},
			object{"type": "array", "items": variableName()},
		)},
		"file_mounts": {about: "Files by where they are put on the machine: ~/there: ./here, or from s3://, gs://, https:// or hf://.", of: object{
			"type": "object", "propertyNames": object{"pattern": `^(~|~/.*|[^/~$].*)$`, "not": object{"pattern": `(^|/)\.\.(/|$)`}},
			"additionalProperties": either(here(), there(), mount(here(), "COPY", "MOUNT", "MOUNT_CACHED", nil), mount(there(), "COPY", nil)),
		}},
		"resources": {about: "Which machines are good enough."},
		"policy":    {about: "Money, time and saves: what SkyPilot's task files have no key for.", must: true},
		"config":    {about: "Of SkyPilot's settings only hooks are read."},

		"workdir.url": {about: "https or ssh, without a password.", of: object{"type": "string", "pattern": `^(https://[^@\s/]+/\S+|ssh://\S+/\S+|[A-Za-z0-9][A-Za-z0-9._-]*@[A-Za-z0-9][A-Za-z0-9.-]*:[A-Za-z0-9._~/-]+)$`}},
		"workdir.ref": {about: "A branch, a tag or a commit.", of: object{"type": scalarTypes(), "pattern": gitRef.String(), "not": object{"pattern": `\.\.|\.lock$`}}},

		"resources.accelerators":    {about: "V100:1; a list or a set is any of them.", of: accelerators()},
		"resources.infra":           {about: "seller, seller/region or seller/region/zone; * is any.", of: object{"type": "string", "pattern": infraPattern, "not": clusters()}},
		"resources.cloud":           {about: "Seller; the older way to write infra.", of: object{"type": "string", "pattern": placePattern, "not": clusters()}},
		"resources.region":          {about: "Region; the older way to write infra.", of: object{"type": "string", "pattern": placePattern}},
		"resources.zone":            {about: "Zone; the older way to write infra.", of: object{"type": "string", "pattern": placePattern}},
		"resources.cpus":            {about: "CPUs, at least: 8 or 8+.", of: amount(`\+?`)},
		"resources.memory":          {about: "Memory, at least, in GB unless a unit is given: 32+.", of: amount(`\s*([kK]?|[gGmMtT]([iI]?[bB])?)\+?`)},
		"resources.disk_size":       {about: "Disk, at least, in GB unless a unit is given.", of: amount(`\s*([gGtT]([iI]?[bB])?)?\+?`)},
		"resources.instance_type":   {about: "The seller's name of a machine.", of: object{"type": scalarTypes(), "pattern": instanceType.String()}},
		"resources.any_of":          {about: "Alternatives in accelerators, place and use_spot.", of: variants()},
		"resources.ordered":         {about: "As any_of; the order is no preference.", of: variants()},
		"resources.use_spot":        {about: "true: spot only; false: on-demand only; absent: whichever pays.", of: truth()},
		"resources.max_hourly_cost": {about: "The most an hour of the machine may cost, in US dollars.", of: price()},
		"resources.labels":          {about: "Headings for the bill.", of: object{"type": "object", "maxProperties": maxLabels, "additionalProperties": object{"type": scalarTypes()}}},
		"resources.job_recovery":    {about: "Whether a trainer that fails by itself is started again.", or: strategy()},
		"resources.job_recovery.strategy": {
			about: "Not consulted: a job that loses its machine is always carried on.", of: strategy()},
		"resources.job_recovery.max_restarts_on_errors": {about: "How often in all a trainer that failed is started again.", of: number(0, 1000)},
		"resources.job_recovery.recover_on_exit_codes": {about: "Exit codes after which the trainer is always started again.",
			of: either(number(1, 255), object{"type": "array", "items": number(1, 255)})},
		"resources.spot_recovery": {about: "As job_recovery.strategy.", of: strategy()},

		"config.hooks": {about: "Scripts that run beside the trainer when the seller gives notice.", of: either(hookShape(), object{"type": "array", "items": hookShape()})},

		"policy.budget":           {about: "The most the job may ever cost, in US dollars: $120.", of: money(), must: true},
		"policy.deadline":         {about: "When it must be done: 2030-01-31T18:00:00Z, or +36h from submission, in the market's time.", of: either(object{"type": "string", "pattern": datePattern}, object{"type": "string", "pattern": `^\+[0-9].*[dhms]$`})},
		"policy.max_duration":     {about: "How long it may live.", of: span},
		"policy.max_price":        {about: "The most an hour of the machine may cost.", of: price()},
		"policy.progress_timeout": {about: "A job without a step or checkpoint for so long is stalled: it is paused, and no machine is paid for.", of: span},
		"policy.on_budget":        {about: "What happens when the budget is spent.", of: words("stop", "pause")},
		"policy.prefer":           {about: "What to choose a machine by.", of: words("cheapest", "fastest", "deadline")},
		"policy.countries":        {about: "Two-letter codes of where it may run; unknown places are out, unless it says any.", of: either(object{"const": events.AnyCountry}, country2(), object{"type": "array", "items": country2()})},
		"policy.trust":            {about: "Whose machines it may run on; own and data-centre if absent.", of: either(trust(), object{"type": "array", "items": trust()})},

		"policy.caches": {about: "Directories below ~ that a host keeps for the organisation's next jobs: [~/.cache/huggingface].", of: either(cache(), object{"type": "array", "items": cache()})},

		"policy.checkpoint":                  {about: "Where the trainer saves, how often, and what tells it to."},
		"policy.checkpoint.dir":              {about: "Below the job's own directory; checkpoints if absent.", of: object{"type": "string", "pattern": `^[^/].*$`, "not": object{"pattern": `^\.?/*$|^\.\.(/|$)`}}},
		"policy.checkpoint.interval":         {about: "Between saves; auto is chosen from what a save costs and how often such machines are taken back.", of: either(object{"const": "auto"}, span)},
		"policy.checkpoint.framework":        {about: "How checkpoints look.", of: words("auto", "hf", "plain")},
		"policy.checkpoint.marker":           {about: "plain: the file that is written last.", of: object{"type": scalarTypes(), "pattern": `^[^/]+$`, "not": object{"enum": []any{".", ".."}}}},
		"policy.checkpoint.keep":             {about: "Committed checkpoints that are kept; 3.", of: number(1, 1000)},
		"policy.checkpoint.verify":           {about: "Every checkpoint is verified before it is restored.", of: truth()},
		"policy.checkpoint.on_notice":        {about: "What the trainer is told when its machine is about to be taken."},
		"policy.checkpoint.on_notice.signal": {about: "A signal that makes it save.", of: object{"type": "string", "pattern": `^(?i)(SIG)?(USR1|USR2|TERM|INT|HUP)$`}},
		"policy.checkpoint.on_notice.grace":  {about: "How long that may take.", of: span},

		"policy.spot":                {about: "When reclaimable capacity is taken and left."},
		"policy.spot.policy":         {about: "spot: only; on-demand: never; auto: whichever pays and holds the deadline.", of: words("spot", "auto", "on-demand")},
		"policy.spot.wait_for_spot":  {about: "Changes nothing: a job on auto takes on-demand when its progress falls behind.", of: either(span, truth())},
		"policy.spot.return_to_spot": {about: "Whether to go back when that pays.", of: truth()},
		"policy.spot.min_saving":     {about: "The least saving that a voluntary move is worth: 5%.", of: object{"type": "string", "pattern": `^0*[1-9][0-9]?%$`}},
		"policy.spot.dwell":          {about: "Between voluntary moves.", of: span},

		"policy.work":          {about: "How much there is to do, so that time left can be told."},
		"policy.work.steps":    {about: "Steps of the trainer.", of: number(1, 1_000_000_000_000)},
		"policy.work.tokens":   {about: "Changes nothing: progress is told in steps.", of: either(object{"type": "number", "minimum": 0}, object{"type": "string", "pattern": tokens.String()})},
		"policy.work.hours_on": {about: "What all of it takes on a model: {V100: 6.5h}; * is any other.", of: object{"type": "object", "propertyNames": object{"pattern": `^(\*|[A-Za-z][A-Za-z0-9._-]{0,63})$`}, "additionalProperties": span}},
	}
}

func scalarTypes() []string { return []string{"string", "number", "boolean"} }

func text() object { return object{"type": scalarTypes()} }

func truth() object {
	return object{"enum": []any{true, false, "true", "false", "yes", "no", "on", "off", "True", "False", "Yes", "No", "On", "Off", "TRUE", "FALSE", "YES", "NO", "ON", "OFF"}}
}

func either(of ...object) object { return object{"anyOf": of} }

func words(of ...any) object { return object{"enum": of} }

func number(least, most int64) object {
	return either(object{"type": "integer", "minimum": least, "maximum": most}, object{"type": "string", "pattern": `^[0-9]+$`})
}

func amount(unit string) object {
	return either(object{"type": "number", "exclusiveMinimum": 0}, object{"type": "string", "pattern": `^[0-9]{1,7}(\.[0-9]{1,4})?` + unit + `$`, "not": object{"pattern": `^[0.]+[^0-9.]*$`}})
}

func here() object {
	return object{"type": "string", "pattern": hereabouts, "not": object{"pattern": `://`}}
}

func cache() object {
	return object{"type": "string", "pattern": `^~/[^/$\\][^$\\]*$`, "not": object{"pattern": `^~/\.?/*$|(^|/)\.\.(/|$)`}}
}

// there is what machines fetch by themselves.
func there() object {
	return either(
		object{"type": "string", "pattern": `^([sS]3|[gG][sS])://[A-Za-z0-9][A-Za-z0-9._-]+[A-Za-z0-9](/[^/$][^$]*|/?)$`},
		object{"type": "string", "pattern": `^([hH][tT][tT][pP][sS]|[hH][tT][tT][pP])://[^/$@]+/[^$]*[^/$]$`},
		object{"type": "string", "pattern": `^[hH][fF]://(datasets/)?[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][^$]*$`},
	)
}

// mount is the long way to write one.
func mount(source object, modes ...any) object {
	return object{
		"type": "object", "additionalProperties": false, "required": []string{"source"},
		"properties": object{"source": source, "mode": object{"enum": modes}, "name": text(), "store": text(),
			"persistent": truth(), "config": object{}, "type": object{}},
	}
}

func money() object {
	return either(object{"type": "number", "exclusiveMinimum": 0, "maximum": 10_000_000}, object{"type": "string", "pattern": `^\$?[0-9]+(\.[0-9]{1,6})?$`, "not": object{"pattern": `^\$?[0.]+$`}})
}

func price() object {
	return either(object{"type": "number", "exclusiveMinimum": 0}, object{"type": "string", "pattern": `^\$?[0-9]+(\.[0-9]{1,9})?(/h)?$`, "not": object{"pattern": `^\$?[0.]+(/h)?$`}})
}

func spanShape() object {
	return object{"type": "string", "pattern": spanPattern, "minLength": 2, "not": object{"pattern": `^[0.dhms]+$`}}
}

func variableName() object {
	return object{"pattern": envName.String(), "not": either(object{"pattern": "^SPOTFERRY_"}, object{"enum": ours})}
}

func clusters() object { return object{"pattern": `^(?i)(k8s|kubernetes|ssh|slurm)(/|$)`} }

func accelerators() object {
	one := object{"type": "string", "pattern": gpuPattern, "not": object{"pattern": `^\s*(?i)tpu-`}}
	return either(one, object{"type": "array", "items": one}, object{
		"type": "object", "propertyNames": one, "additionalProperties": either(object{"type": "null"}, number(1, maxGPUs)),
	})
}

func variants() object {
	return object{"type": "array", "items": object{"type": "object", "additionalProperties": false, "properties": object{
		"accelerators": orNothing(accelerators()),
		"infra":        orNothing(object{"type": "string", "pattern": infraPattern, "not": clusters()}),
		"cloud":        orNothing(object{"type": "string", "pattern": placePattern, "not": clusters()}),
		"region":       orNothing(object{"type": "string", "pattern": placePattern}),
		"zone":         orNothing(object{"type": "string", "pattern": placePattern}),
		"use_spot":     orNothing(truth()),
	}}}
}

func strategy() object {
	return object{"type": "string", "pattern": `^(?i)(none|failover|eager_next_region|eager_failover)$`}
}

func hookShape() object {
	event := words("stop", "preemption", "down")
	return object{"type": "object", "additionalProperties": false, "required": []string{"run"}, "properties": object{
		"run": object{"type": scalarTypes(), "pattern": `\S`}, "timeout": number(1, 24*3600),
		"events": either(event, object{"type": "array", "minItems": 1, "items": event}),
	}}
}

func trust() object {
	return words(string(events.TrustOwn), string(events.TrustDataCentre), string(events.TrustCommunity))
}

func country2() object {
	return object{"type": "string", "pattern": `^[A-Za-z]{2}$`, "not": object{"pattern": `^(?i)(EU|UK)$`}}
}
