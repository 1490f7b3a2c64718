package jobfile

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"github.com/spotferry/spotferry/deploy/examples"
)

// compiled is the schema as an editor would use it.
func compiled(t *testing.T) *jsonschema.Schema {
	t.Helper()
	b, err := Schema()
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource(SchemaID, doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile(SchemaID)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// valid says whether the schema takes a file, as YAML resolves it.
func valid(t *testing.T, s *jsonschema.Schema, src string) (bool, error) {
	t.Helper()
	var v any
	if err := yaml.Unmarshal([]byte(src), &v); err != nil {
		return false, err
	}
	b, err := json.Marshal(plain(v))
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	err = s.Validate(doc)
	return err == nil, err
}

// plain makes JSON of what YAML resolved: an editor has no times.
func plain(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			v[k] = plain(e)
		}
	case []any:
		for i, e := range v {
			v[i] = plain(e)
		}
	case time.Time:
		return v.Format(time.RFC3339)
	}
	return v
}

// specimen is one value of a key, as it is written, and whether it is accepted.
type specimen struct {
	good, bad []string
}

// specimens has some for every key that is read; what only a clock, a disk or
// another key can tell is not among them.
func specimens() map[string]specimen {
	span := specimen{[]string{"90s", "6.5h", "1d12h", "'45m'"}, []string{"5", "soon", "-5h", "5 h", "0s", "1m1h", "{}: 1", "[5h]"}}
	truth := specimen{[]string{"true", "False", "yes", "off", "'true'"}, []string{"maybe", "1", "[true]", "{a: b}"}}
	name := specimen{[]string{"us-east-1", "'*'"}, []string{"a b", "a/b", "[x]", "{x: y}", "''"}}
	count := specimen{[]string{"3", "'7'"}, []string{"many", "-1", "1.5", "[1]", "{a: 1}"}}
	strategy := specimen{[]string{"FAILOVER", "eager_next_region", "none"}, []string{"DYNAMIC", "[FAILOVER]"}}
	return map[string]specimen{
		"name":      {[]string{"x", "7", "'Fine-tune *'", "true"}, []string{"''", "[a]", "{a: b}"}},
		"setup":     {[]string{"make", "|-\n    a\n    b", "''"}, []string{"[a]", "{a: b}"}},
		"run":       {[]string{"make", "5"}, []string{"''", "'  '", "[a]", "{a: b}", "null", "[]"}},
		"workdir":   {[]string{".", "~/x", "{url: 'https://github.com/a/b', ref: v1}", "null"}, []string{"s3://x/y", "$HOME", "[a]", "{ref: a b}", "{uri: x}", "''"}},
		"num_nodes": {[]string{"1", "'1'"}, []string{"2", "0", "one", "[1]"}},
		"envs":      {[]string{"{A: 1.10, b_2: yes}", "{A: ''}"}, []string{"{a b: c}", "{SPOTFERRY_X: y}", "{SKYPILOT_TASK_ID: y}", "[A]", "{A: [b]}", "{1A: b}", "text"}},
		"secrets":   {[]string{"{A: xyz}", "{A: ''}"}, []string{"{a b: c}", "{SPOTFERRY_X: y}", "text", "{A: [b]}", "[a b]", "[{A: b}]"}},
		"file_mounts": {[]string{"{~/x: ./y}", "{x: /abs/y}", "{~/x: {source: ./y, mode: COPY, persistent: false, name: b}}", "{~/x: 's3://bucket/c'}", "{~/x: {source: 'gs://bucket', mode: COPY}}", "{~/x: 'https://e.org/f'}", "{~/x: 'hf://datasets/a/b@main/c'}"},
			[]string{"{/x: ./y}", "{~/x: az://b/c}", "{~/x: s3://$B/c}", "{~/x: https://e.org/}", "{~/x: hf://a}", "{~/x: {source: s3://bucket/c, mode: MOUNT}}", "{~/x: {name: b}}", "{~/x: {source: ./y, mode: SHARE}}", "{../x: y}", "{~/x: $Y}", "[a]", "{~/x: {source: y, sauce: z}}"}},
		"resources": {[]string{"null", "{}"}, []string{"[a]", "V100", "{nothing: 1}"}},
		"policy":    {[]string{"{budget: 1}"}, []string{"null", "{}", "[a]", "{budget: 1, nothing: 2}"}},
		"config":    {[]string{"null", "{}"}, []string{"[a]", "x", "{docker: {run_options: []}, kubernetes: {a: b}}"}},

		"workdir.url": {[]string{"https://github.com/a/b.git", "git@github.com:a/b.git", "ssh://git@h/a"}, []string{"http://x/y", "file:///x", "ext::sh", "https://t@h/x", "[x]"}},
		"workdir.ref": {[]string{"main", "v1.2", "'0123'"}, []string{"--x", "a..b", "a b", "[x]"}},

		"resources.accelerators": {[]string{"V100", "V100:8", "[V100, 'L4:2']", "{V100:1, L4: 2, A10G}", "[]"},
			[]string{"V100:0", "V100:65", "V100:x", "8", "tpu-v5e:1", "[V100:0.5]", "{V100: none}", "[[V100]]", "'a b'"}},
		"resources.infra":           {[]string{"aws", "aws/us-east-1", "'*/*/us-east-1a'"}, []string{"k8s/ctx", "slurm", "a/b/c/d", "'a b'", "[aws]", "aws/"}},
		"resources.cloud":           {[]string{"aws", "'*'"}, []string{"kubernetes", "a/b", "[aws]"}},
		"resources.region":          name,
		"resources.zone":            name,
		"resources.cpus":            {[]string{"8", "8+", "0.5+", "'16'"}, []string{"0", "many", "-1", "8x", "[8]"}},
		"resources.memory":          {[]string{"32", "32+", "64GB", "512mib+", "1.5tb"}, []string{"0", "4x", "-1", "[8]", "0gb"}},
		"resources.disk_size":       {[]string{"256", "1TB", "'500GB'"}, []string{"0", "1PBx", "-1", "[8]"}},
		"resources.instance_type":   {[]string{"p3.2xlarge", "v100.1"}, []string{"'a b'", "[x]", "''"}},
		"resources.any_of":          {[]string{"[{infra: aws}, {infra: gcp}]", "[{accelerators: V100}, {accelerators: L4}]", "[{use_spot: true}]"}, []string{"aws", "[aws]", "[{cpus: 4}]", "[{infra: k8s}]", "{a: b}"}},
		"resources.ordered":         {[]string{"[{infra: aws}, {infra: gcp}]"}, []string{"aws", "[aws]", "[{disk_size: 4}]", "{a: b}"}},
		"resources.use_spot":        truth,
		"resources.max_hourly_cost": {[]string{"3", "2.50", "$2.5", "'2.5/h'"}, []string{"0", "-1", "cheap", "[1]", "€3"}},
		"resources.labels":          {[]string{"{a: b, c: 5}", "{}"}, []string{"text", "[a]", "{a: [b]}"}},
		"resources.job_recovery":    {[]string{"FAILOVER", "null", "{strategy: none}"}, []string{"[a]", "DYNAMIC", "{min_nodes: 1}"}},

		"resources.job_recovery.strategy":               strategy,
		"resources.job_recovery.max_restarts_on_errors": {append([]string{"0"}, count.good...), count.bad},
		"resources.job_recovery.recover_on_exit_codes":  {[]string{"33", "[33, 34]", "[]"}, []string{"0", "256", "[3, 0]", "x", "{a: 1}"}},
		"resources.spot_recovery":                       strategy,
		"config.hooks": {[]string{"[{run: x}]", "{run: x, events: preemption}", "[{run: x, events: [stop, down], timeout: 60}]"},
			[]string{"x", "[x]", "[{events: [preemption]}]", "[{run: x, events: [reboot]}]", "[{run: x, timeout: 0}]", "[{run: x, when: y}]"}},

		"policy.budget":           {[]string{"120", "$120", "'0.000001'", "0.3"}, []string{"0", "-5", "€100", "100 EUR", "$1,000", "cheap", "[1]", "10000001", "null"}},
		"policy.deadline":         {[]string{"+36h", "2030-02-01T02:30:00Z", "2030-02-01T02:30:00+01:00"}, []string{"36h", "soon", "[x]", "'2030-01-31 10:00'", "+0"}},
		"policy.max_duration":     span,
		"policy.max_price":        {[]string{"3", "$2.50/h"}, []string{"0", "-1", "cheap", "[1]"}},
		"policy.progress_timeout": span,
		"policy.on_budget":        {[]string{"stop", "pause"}, []string{"die", "[stop]", "true"}},
		"policy.prefer":           {[]string{"cheapest", "fastest"}, []string{"best", "[fastest]"}},
		"policy.caches":           {[]string{"~/.cache/huggingface", "[~/.cache/huggingface, ~/data/]", "[]"}, []string{"/data", "[data]", "'~'", "~/..", "[~/../x]", "{a: b}"}},
		"policy.countries":        {[]string{"DE", "[de, FR]", "[]", "any"}, []string{"EU", "UK", "Germany", "[DE, X]", "[any]", "{DE: 1}"}},
		"policy.trust":            {[]string{"community", "[own, data-centre]", "[]"}, []string{"nobody", "[own, x]", "true", "{own: 1}"}},

		"policy.checkpoint":                  {[]string{"null"}, []string{"[a]", "dir", "{nothing: 1}"}},
		"policy.checkpoint.dir":              {[]string{"out/ckpt"}, []string{"/abs", "../x", ".", "[x]"}},
		"policy.checkpoint.interval":         {[]string{"auto", "90s", "10m"}, span.bad},
		"policy.checkpoint.framework":        {[]string{"auto", "hf", "plain"}, []string{"torch", "[hf]"}},
		"policy.checkpoint.marker":           {[]string{"DONE"}, []string{"a/b", ".", "[x]", "''"}},
		"policy.checkpoint.keep":             {count.good, append([]string{"0"}, count.bad...)},
		"policy.checkpoint.verify":           truth,
		"policy.checkpoint.on_notice":        {[]string{"null"}, []string{"[a]", "SIGUSR1", "{nothing: 1}"}},
		"policy.checkpoint.on_notice.signal": {[]string{"SIGUSR1", "usr2", "TERM"}, []string{"SIGKILL", "9", "[SIGUSR1]"}},
		"policy.checkpoint.on_notice.grace":  {[]string{"90s", "5m"}, span.bad},

		"policy.spot":                {[]string{"null"}, []string{"[a]", "auto", "{nothing: 1}"}},
		"policy.spot.policy":         {[]string{"spot", "auto", "on-demand"}, []string{"cheap", "true", "[spot]"}},
		"policy.spot.wait_for_spot":  {[]string{"1h", "true", "false"}, []string{"5", "soon", "[1h]"}},
		"policy.spot.return_to_spot": truth,
		"policy.spot.min_saving":     {[]string{"5%", "'99%'"}, []string{"5", "0%", "100%", "5.5%", "[5%]"}},
		"policy.spot.dwell":          span,

		"policy.work":          {[]string{"null"}, []string{"[a]", "5", "{nothing: 1}"}},
		"policy.work.steps":    {count.good, append([]string{"0"}, count.bad...)},
		"policy.work.tokens":   {[]string{"300M", "1.5B", "1000000"}, []string{"many", "-1", "[5]"}},
		"policy.work.hours_on": {[]string{"{V100: 6.5h}", "{'*': 10h}"}, []string{"5h", "[V100]", "{V100: 5}", "{'a b': 5h}"}},
	}
}

// fileWith is a whole file with one key set to what is written.
func fileWith(path, value string) string {
	lines := []string{"run: train", "policy:", "  budget: 1"}
	parts := strings.Split(path, ".")
	switch {
	case path == "run":
		lines = lines[1:]
	case path == "policy":
		lines = lines[:1]
	case path == "policy.budget":
		lines = lines[:2]
	case parts[0] != "policy":
		lines = append(lines, parts[0]+":")
	}
	if len(parts) == 1 {
		if parts[0] != "run" && parts[0] != "policy" {
			lines = lines[:len(lines)-1]
		}
		return strings.Join(append(lines, path+": "+value), "\n") + "\n"
	}
	for depth := 1; depth < len(parts)-1; depth++ {
		lines = append(lines, strings.Repeat("  ", depth)+parts[depth]+":")
	}
	last := len(parts) - 1
	lines = append(lines, strings.Repeat("  ", last)+parts[last]+": "+value)
	if path == "workdir.ref" {
		lines = append(lines, "  url: https://h/x")
	}
	return strings.Join(lines, "\n") + "\n"
}

func TestSchemaAndReaderAgree(t *testing.T) {
	t.Parallel()
	s, some := compiled(t), specimens()
	judge := func(t *testing.T, src string, want bool) {
		t.Helper()
		_, reader := Read("job.yaml", []byte(src), Options{Now: now, Home: "/home/ann"})
		ok, schema := valid(t, s, src)
		if (reader == nil) != want || ok != want {
			t.Errorf("want accepted %t of\n%s\nreader: %v\nschema: %v", want, src, reader, schema)
		}
	}
	cases := 0
	for _, k := range table() {
		t.Run(k.path, func(t *testing.T) {
			if k.path == "config.*" {
				return // any other name; config has one among its own
			}
			switch k.verdict {
			case warns:
				judge(t, fileWith(k.path, "{a: b}"), true)
				cases++
				return
			case refuses:
				judge(t, fileWith(k.path, "{a: b}"), false)
				judge(t, fileWith(k.path, "x"), false)
				judge(t, fileWith(k.path, "null"), true)
				judge(t, fileWith(k.path, "false"), true)
				cases += 4
				return
			}
			sp, ok := some[k.path]
			if !ok || len(sp.good) == 0 || len(sp.bad) == 0 {
				t.Fatal("there is no specimen of it")
			}
			for _, v := range sp.good {
				judge(t, fileWith(k.path, v), true)
			}
			for _, v := range sp.bad {
				judge(t, fileWith(k.path, v), false)
			}
			judge(t, strings.Replace(fileWith(k.path, sp.good[0]), leaf(k.path)+":", leaf(k.path)+"x:", 1), false)
			cases += len(sp.good) + len(sp.bad) + 1
		})
	}
	if cases < 400 {
		t.Errorf("only %d cases were judged", cases)
	}
}

func TestSchemaTakesEveryExample(t *testing.T) {
	t.Parallel()
	s, dir := compiled(t), t.TempDir()
	names, err := examples.Unpack(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		src, err := os.ReadFile(dir + "/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if ok, why := valid(t, s, string(src)); !ok {
			t.Errorf("%s: %v", name, why)
		}
	}
}

func TestEveryKeyHasAShapeAndADescription(t *testing.T) {
	t.Parallel()
	rows := map[string]verdict{}
	for _, k := range table() {
		rows[k.path] = k.verdict
		if sh, ok := shapes()[k.path]; (k.verdict == reads) != ok || ok && sh.about == "" {
			t.Errorf("%s is %s: it needs a shape and a description if it is read, and none otherwise", k.path, k.verdict)
		}
	}
	for path := range shapes() {
		if rows[path] != reads {
			t.Errorf("%s has a shape, and no row that is read", path)
		}
	}
}

func TestTheSchemaIsTheSameEveryTime(t *testing.T) {
	t.Parallel()
	a, err := Schema()
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		if b, err := Schema(); err != nil || !bytes.Equal(a, b) {
			t.Fatal("it differs from one time to the next")
		}
	}
}
