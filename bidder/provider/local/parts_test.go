//go:build linux

package local

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spotferry/spotferry/bidder/trace"
	"github.com/spotferry/spotferry/events"
)

func TestMetadataAnswersAsEC2Does(t *testing.T) {
	t.Parallel()
	now := noon
	pool := events.Pool{Region: "us-east", Zone: "us-east-a", InstanceType: "v100x1", Capacity: events.Spot}
	m := NewMetadata(MetadataConfig{ID: "i-1", Pool: pool, UserData: []byte("born with"), Now: func() time.Time { return now }})
	do := func(method, path string, headers ...string) *httptest.ResponseRecorder {
		req := httptest.NewRequest(method, path, nil)
		for i := 0; i < len(headers); i += 2 {
			req.Header.Set(headers[i], headers[i+1])
		}
		w := httptest.NewRecorder()
		m.ServeHTTP(w, req)
		return w
	}
	given := do("PUT", "/latest/api/token", ttlHeader, "60")
	token := given.Body.String()
	if given.Code != 200 || len(token) != 44 || given.Header().Get(ttlHeader) != "60" {
		t.Fatalf("token: %d %q %v", given.Code, token, given.Header())
	}
	const action = "/latest/meta-data/spot/instance-action"
	m.Warn(noon.Add(90*time.Second + 900*time.Millisecond))
	for _, tc := range []struct {
		name, method, path string
		headers            []string
		code               int
		kind, body         string
	}{
		{"a token without a lifetime is refused", "PUT", "/latest/api/token", nil, 400, "text/html", "400 - Bad Request"},
		{"a token for a day is refused", "PUT", "/latest/api/token", []string{ttlHeader, "86400"}, 400, "text/html", "400"},
		{"a token through a proxy is refused", "PUT", "/latest/api/token", []string{ttlHeader, "60", "X-Forwarded-For", "1.2.3.4"}, 403, "text/html", "403"},
		{"a token is put, not got", "GET", "/latest/api/token", []string{ttlHeader, "60"}, 405, "text/html", "405"},
		{"without a token there is no answer", "GET", action, nil, 401, "text/html", "401 - Unauthorized"},
		{"nor with a made-up one", "GET", action, []string{tokenHeader, strings.Repeat("A", 44)}, 401, "text/html", "401"},
		{"a warning names a whole second", "GET", action, []string{tokenHeader, token}, 200, "application/json", `{"action":"terminate","time":"2027-03-01T12:01:30Z"}`},
		{"in plain text, too", "GET", "/latest/meta-data/spot/termination-time", []string{tokenHeader, token}, 200, "text/plain", "2027-03-01T12:01:30Z"},
		{"there are no recommendations", "GET", "/latest/meta-data/events/recommendations/rebalance", []string{tokenHeader, token}, 404, "text/html", "404 - Not Found"},
		{"a machine knows its name", "GET", "/latest/meta-data/instance-id", []string{tokenHeader, token}, 200, "text/plain", "i-1"},
		{"and how it is paid for", "GET", "/latest/meta-data/instance-life-cycle", []string{tokenHeader, token}, 200, "text/plain", "spot"},
		{"and where it is", "GET", "/latest/meta-data/placement/availability-zone", []string{tokenHeader, token}, 200, "text/plain", "us-east-a"},
		{"and what it was born with", "GET", "/latest/user-data", []string{tokenHeader, token}, 200, "application/octet-stream", "born with"},
		{"nothing can be put", "PUT", action, []string{tokenHeader, token}, 405, "text/html", "405"},
		{"there is nothing above", "GET", "/latest/meta-data/../../etc/passwd", []string{tokenHeader, token}, 404, "text/html", "404"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := do(tc.method, tc.path, tc.headers...)
			if w.Code != tc.code || w.Header().Get("Content-Type") != tc.kind || !strings.Contains(w.Body.String(), tc.body) {
				t.Errorf("%d %s %q, want %d %s with %q", w.Code, w.Header().Get("Content-Type"), w.Body, tc.code, tc.kind, tc.body)
			}
		})
	}
	m.Warn(time.Time{})
	if w := do("GET", action, tokenHeader, token); w.Code != http.StatusNotFound {
		t.Errorf("a withdrawn warning is answered with %d", w.Code)
	}
	now = now.Add(time.Minute)
	if w := do("GET", action, tokenHeader, token); w.Code != http.StatusUnauthorized {
		t.Errorf("a token that is too old is answered with %d", w.Code)
	}
	for range 2 * maxTokens {
		do("PUT", "/latest/api/token", ttlHeader, "60")
	}
	if len(m.tokens) > maxTokens {
		t.Errorf("%d tokens are kept", len(m.tokens))
	}
}

func TestSchedule(t *testing.T) {
	t.Parallel()
	c := trace.NewClock(noon, noon, 240)
	at := func(s float64) time.Time { return noon.Add(time.Duration(s * float64(time.Second))) }
	market := func(s float64) time.Time { return c.Market(at(s)) }
	for _, tc := range []struct {
		name string
		r    trace.Reclaim
		want string
	}{
		{"a kill without a warning comes at its moment", trace.Reclaim{Kind: trace.Unnoticed, At: market(9.25)}, "kill@9.25 end 9.25"},
		{"a warned machine goes on a whole second", trace.Reclaim{Kind: trace.Noticed, At: market(9.25), Notice: 3 * time.Second}, "warn@6 end 9; kill@9 end 9"},
		{"a warning longer than the life is given at birth", trace.Reclaim{Kind: trace.Noticed, At: market(9.25), Notice: time.Minute}, "warn@0 end 9; kill@9 end 9"},
		{"a withdrawn warning kills nobody", trace.Reclaim{Kind: trace.Withdrawn, At: market(9.25), Notice: 3 * time.Second, Withdraw: time.Second}, "warn@6 end 9; withdraw@7"},
		{"a kill into a save is aimed", trace.Reclaim{Kind: trace.Unnoticed, At: market(9.25), SaveOffset: 1}, "aim@9.25"},
		{"what should have been before the launch is at once", trace.Reclaim{Kind: trace.Unnoticed, At: market(-3)}, "kill@0 end 0"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, a := range schedule([]trace.Reclaim{tc.r}, c, noon) {
				s := fmt.Sprintf("%s@%v", map[verb]string{warn: "warn", withdraw: "withdraw", aim: "aim", kill: "kill"}[a.do], a.at.Sub(noon).Seconds())
				switch a.do {
				case warn:
					s += fmt.Sprintf(" end %v", a.end.Sub(noon).Seconds())
				case kill:
					s += fmt.Sprintf(" end %v", c.Control(a.end).Sub(noon).Seconds())
				}
				got = append(got, s)
			}
			if s := strings.Join(got, "; "); s != tc.want {
				t.Errorf("schedule = %s, want %s", s, tc.want)
			}
		})
	}
}

func TestForcedReclaimsLeaveTheWholeWarning(t *testing.T) {
	t.Parallel()
	now := noon.Add(300 * time.Millisecond)
	plan := schedule([]trace.Reclaim{forced(Reclaim{NoticeS: 2}, trace.RealTime(), now)}, trace.RealTime(), now)
	if len(plan) != 2 || !plan[1].at.Equal(noon.Add(3*time.Second)) || plan[0].at.Before(now) {
		t.Errorf("%+v", plan)
	}
}

func TestSaveWatch(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	mkdir := func(parts ...string) string {
		dir := filepath.Join(append([]string{root}, parts...)...)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	finish := func(dir string) {
		if err := os.WriteFile(filepath.Join(dir, complete), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	torn := mkdir("work", "out", "checkpoint-1") // from before
	mkdir("work", "cache")
	w, err := newSaveWatch(root)
	if err != nil {
		t.Fatal(err)
	}
	defer w.close()
	expect := func(want string) {
		t.Helper()
		if got, err := w.next(); err != nil || got != want {
			t.Errorf("next = %q, %v, want %q", got, err, want)
		}
	}
	mkdir("work", "out", ".spotferry", "checkpoint-2")
	report(filepath.Join(root, "work", "out", "checkpoint-log"), "a file is no checkpoint")
	finish(torn)
	save := mkdir("work", "out", "checkpoint-4")
	expect(save)
	finish(save)
	// Directories made in one go: the watch on the outer ones comes too late for the inner.
	deep := mkdir("work", "a", "b", "c", "checkpoint-9")
	expect(deep)
	moved := mkdir("work", "cache", "new")
	if err := os.Rename(moved, filepath.Join(root, "work", "cache", "checkpoint-10")); err != nil {
		t.Fatal(err)
	}
	expect(filepath.Join(root, "work", "cache", "checkpoint-10"))
	if saved(deep) || !saved(save) || !saved(deep+"-gone") {
		t.Error("saved is wrong")
	}
}

func TestEvidenceIsAppendedOnce(t *testing.T) {
	t.Parallel()
	type row struct {
		Instance string `json:"instance"`
		N        int    `json:"n"`
	}
	a := []any{row{"a", 1}, row{"a", 2}}
	const whole, other = "{\"instance\":\"a\",\"n\":1}\n{\"instance\":\"a\",\"n\":2}\n", "{\"instance\":\"b\",\"n\":1}\n"
	for _, tc := range []struct{ name, before, after string }{
		{"into nothing", "", whole},
		{"after another's", other, other + whole},
		{"again", whole + other, whole + other},
		{"after a torn row of its own", other + whole[:30], other + whole},
		{"after a torn row of another's", other[:9], whole},
		{"after one of two rows and somebody else", whole[:len(whole)/2] + other, whole[:len(whole)/2] + other + whole[len(whole)/2:]},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "meter.jsonl")
			if err := os.WriteFile(path, []byte(tc.before), 0o644); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if err := appendOnce(path, "a", a); err != nil {
					t.Fatal(err)
				}
				if got, err := os.ReadFile(path); err != nil || string(got) != tc.after {
					t.Errorf("file is\n%swant\n%s%v", got, tc.after, err)
				}
			}
		})
	}
}

func TestTheProgramIsKept(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for range 2 {
		path, err := KeepExecutable(filepath.Join(dir, "bin"))
		if err != nil {
			t.Fatal(err)
		}
		self, err1 := os.Stat(selfPath)
		kept, err2 := os.Stat(path)
		if err1 != nil || err2 != nil || self.Size() != kept.Size() || kept.Mode()&0o100 == 0 {
			t.Errorf("%v %v, %v %v", self, err1, kept, err2)
		}
	}
}

func TestConfigNamesWhatIsWrong(t *testing.T) {
	t.Parallel()
	err := Config{Dir: "relative", EvidenceDir: "relative", OfferTTL: -1}.Validate()
	for _, want := range []string{"Dir is", "Exe is", "AgentArgs", "EvidenceDir is", "OfferTTL", "market: kind"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not name %s", err, want)
		}
	}
}

func TestCgroupMount(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, mounts, want string }{
		{"unified", "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n", "/sys/fs/cgroup"},
		{"beside version 1", "31 30 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n", "/sys/fs/cgroup/unified"},
		{"a part of it is of no use", "41 31 0:38 /part /mnt rw - cgroup2 cgroup2 rw\n", ""},
		{"none", "41 31 0:38 / /mnt rw - ext4 /dev/vda rw\n", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if got := cgroupMount([]byte(tc.mounts)); got != tc.want {
				t.Errorf("mount %q, want %q", got, tc.want)
			}
		})
	}
}
