package natsbus

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
	"go.uber.org/zap"

	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/events/natsbus/natsbustest"
)

const jobB = events.JobID("01j11111111111111111111111")

// guarded is a bus in operator mode with the streams, a gateway that answers
// agents, and the accounts of two jobs.
type guarded struct {
	bus      *Embedded
	op       *Operator
	main     *nats.Conn
	log      *Log
	accounts *Accounts
	asked    atomic.Int64 // requests that reached the gateway
}

func guard(t *testing.T, listen bool) *guarded {
	t.Helper()
	dir := natsbustest.Dir(t)
	g := &guarded{op: openOperator(t, dir, rand.Reader)}
	g.bus = startBus(t, EmbeddedConfig{Dir: filepath.Join(dir, "bus"), Operator: g.op, Listen: listen})
	g.main = dial(t, ConnConfig{Server: g.bus, Name: "gateway", Credentials: must(g.op.Service("gateway"))})
	g.log = newLog(t, g.main, Options{})
	if err := Declare(t.Context(), g.log.JetStream(), 1); err != nil {
		t.Fatal(err)
	}
	sys := dial(t, ConnConfig{Server: g.bus, Name: "accounts", Credentials: must(g.op.System("accounts"))})
	g.accounts = NewAccounts(g.op, sys)
	for _, j := range []events.JobID{job, jobB} {
		if err := g.accounts.AddJob(t.Context(), j); err != nil {
			t.Fatal(err)
		}
	}
	for _, subject := range []string{"agent.*.*.*", "sf.api.>"} {
		if _, err := g.main.QueueSubscribe(subject, "gateway", func(m *nats.Msg) {
			_ = m.Respond([]byte("answer to " + m.Subject))
			g.asked.Add(1)
		}); err != nil {
			t.Fatal(err)
		}
	}
	if err := g.main.Flush(); err != nil {
		t.Fatal(err)
	}
	return g
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// agent makes the credential of a job's epoch the way an agent gets it.
func (g *guarded) agent(t *testing.T, job events.JobID, epoch int) (Credentials, string) {
	t.Helper()
	kp := must(newKey(nkeys.PrefixByteUser, rand.Reader))
	pub := must(kp.PublicKey())
	token, err := g.op.User(job, epoch, pub, Validity{From: time.Now(), To: time.Now().Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	return Credentials{JWT: token, Seed: string(must(kp.Seed()))}, pub
}

func (g *guarded) bootstrap(t *testing.T) Credentials {
	t.Helper()
	text, err := g.op.Bootstrap(job, 2, job.Lease(2, 1), Validity{From: time.Now(), To: time.Now().Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	return must(ParseCredentials(text))
}

// stored counts every message of every stream.
func (g *guarded) stored(t *testing.T) (n uint64) {
	t.Helper()
	for _, s := range table() {
		info, err := g.log.JetStream().Stream(t.Context(), s.name)
		if err != nil {
			t.Fatal(err)
		}
		n += info.CachedInfo().State.Msgs
	}
	return n
}

func TestAnAgentMayAskAndHearItsOwn(t *testing.T) {
	t.Parallel()
	g := guard(t, true)
	creds, _ := g.agent(t, job, 2)
	nc := dial(t, ConnConfig{URLFile: g.bus.URLFile(), Name: "agent", Credentials: creds})
	subject := events.AgentSubject(job, 2, events.VerbRenew)
	m, err := nc.Request(subject, []byte("{}"), 5*time.Second)
	if err != nil || string(m.Data) != "answer to "+subject {
		t.Fatalf("Request = %v, %v", m, err)
	}
	sub, err := nc.SubscribeSync(events.DownSubject(job, 2))
	if err == nil {
		err = nc.Flush()
	}
	if err == nil {
		err = g.main.Publish(events.DownSubject(job, 2), []byte("look"))
	}
	if err != nil {
		t.Fatal(err)
	}
	if m, err := sub.NextMsg(5 * time.Second); err != nil || string(m.Data) != "look" {
		t.Errorf("NextMsg = %v, %v", m, err)
	}
}

func TestNobodyReachesWhatIsNotHis(t *testing.T) {
	t.Parallel()
	g := guard(t, false)
	agent, _ := g.agent(t, job, 2)
	_, other := g.agent(t, jobB, 1)
	foreign := []string{
		"agent.%[2]s.1.renew", "agent.%[2]s.2.commit", "agent.%[1]s.1.renew", "agent.%[1]s.3.commit", "agent.%[1]s.20.renew", "agent.%[1]s.renew",
		"down.%[1]s.2", "down.%[2]s.1", "sf.api.job.cancel", "sf.v1.job.acme.%[1]s.committed", "sf.v1.job.acme.%[2]s.ended",
		"sf.v1.lease.acme.%[1]s-2-1.ended", "sf.v1.money.acme.budget-set", "sf.v1.offer.aws.eu.x", "sf.v1.quarantine.aws.eu.x", "sf.v1.hist.offer.x",
		"sf.v1.signal.acme.%[1]s.2", "sf.v1.log.acme.%[1]s.2", "sf.v1.dlq.JOBS.x", "$JS.API.INFO", "$JS.API.STREAM.INFO.JOBS",
		"$JS.API.STREAM.MSG.GET.JOBS", "$JS.API.STREAM.PURGE.MONEY", "$JS.API.STREAM.DELETE.JOBS", "$JS.API.CONSUMER.CREATE.JOBS",
		"$JS.API.DIRECT.GET.JOBS", "$JS.ACK.JOBS.failover.1.1.1.1.1", "$SYS.REQ.CLAIMS.UPDATE", "$SYS.REQ.CLAIMS.DELETE",
		"$SYS.REQ.SERVER.PING", "$SYS.REQ.ACCOUNT.PING.CONNZ", "$SRV.PING", "$KV.x.y", "_INBOX." + other + ".x", "_R_.x", "anything",
	}
	join := events.AgentSubject(job, 2, events.VerbJoin)
	for _, tc := range []struct {
		name    string
		creds   Credentials
		publish []string // refused
		hear    []string // refused
	}{
		{"an agent", agent, foreign, []string{
			">", "*", "agent.>", "agent.%[1]s.>", "agent.%[1]s.2.*", "agent.%[2]s.>", "down.>", "down.%[1]s.*", "down.%[1]s.1", "down.%[1]s.3", "down.%[2]s.1",
			"sf.>", "sf.v1.>", "sf.v1.job.>", "sf.v1.money.>", "sf.v1.offer.>", "sf.v1.signal.>", "sf.v1.log.>", "sf.api.>", "$JS.>", "$SYS.>", "$SRV.>",
			"_INBOX.>", "_INBOX.*.>", "_INBOX." + other + ".>", "_R_.>",
		}},
		{"a machine that has not joined", g.bootstrap(t), append(foreign, "agent.%[1]s.2.renew", "agent.%[1]s.2.commit", "agent.%[1]s.2.join.x"),
			[]string{">", "down.%[1]s.2", "agent.>", "_INBOX.>", "sf.v1.>"}},
		{"a person", must(g.op.Person("ann", "operator", Validity{From: time.Now()})),
			[]string{"sf.v1.job.acme.%[1]s.ended", "sf.v1.money.acme.budget-set", "agent.%[1]s.2.commit", "down.%[1]s.2", "$JS.API.INFO", "$JS.API.STREAM.DELETE.JOBS", "$SYS.REQ.CLAIMS.UPDATE",
				"sf.api.operator.bob.cancel", "sf.api.admin.ann.budget-set", "sf.api.viewer.ann.jobs", "sf.api.operator.ann", "sf.api.operator.ann.jobs.x", "sf.api.jobs", "sf.v1.ops.acme.frozen"},
			[]string{">", "sf.>", "sf.api.>", "sf.api.operator.ann.*", "agent.>", "_INBOX.>", "$SYS.>"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before, asked := g.stored(t), g.asked.Load()
			refused := make(chan string, 100)
			o, err := ConnConfig{Server: g.bus, Name: tc.name, Credentials: tc.creds, Log: zap.NewNop()}.options()
			if err != nil {
				t.Fatal(err)
			}
			o.AsyncErrorCB = func(_ *nats.Conn, _ *nats.Subscription, err error) { refused <- err.Error() }
			nc, err := o.Connect()
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(nc.Close)
			fill := func(s string) string { return fmt.Sprintf(s+"%.0[1]s%.0[2]s", job, jobB) }
			for _, s := range tc.publish {
				subject := fill(s)
				expectRefusal(t, nc, refused, subject, func() error { return nc.PublishRequest(subject, "sf.v1.money.acme.settled", []byte("{}")) })
			}
			for _, s := range tc.hear {
				subject := fill(s)
				expectRefusal(t, nc, refused, subject, func() error { _, err := nc.SubscribeSync(subject); return err })
				expectRefusal(t, nc, refused, subject, func() error { _, err := nc.QueueSubscribeSync(subject, "gateway"); return err })
			}
			// What is allowed, with an answer that is to land in a stream.
			for _, trick := range []string{"sf.v1.money.acme.settled", "sf.v1.job.acme." + string(job) + ".ended", "sf.v1.signal.acme.x.1"} {
				for _, s := range []string{join, events.AgentSubject(job, 2, events.VerbCommit), "sf.api.operator.ann.jobs"} {
					if err := nc.PublishRequest(s, trick, []byte("{}")); err != nil {
						t.Fatal(err)
					}
				}
			}
			if err := nc.Flush(); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the allowed requests were answered", func() bool { return g.asked.Load() >= asked+3 })
			if err := g.main.Flush(); err != nil {
				t.Fatal(err)
			}
			// These stand behind whatever the tricks could have written.
			probes := []string{"sf.v1.money.acme.probe", "sf.v1.job.acme.x.probe", "sf.v1.signal.acme.probe." + events.Token(tc.name)}
			for _, s := range probes {
				if _, err := g.log.JetStream().Publish(t.Context(), s, nil); err != nil {
					t.Fatal(err)
				}
			}
			if after := g.stored(t); after != before+uint64(len(probes)) {
				t.Errorf("%d messages got into the streams", after-before-uint64(len(probes)))
			}
		})
	}
}

// The control: between users of one account the trick works, which is why jobs and people have their own.
func TestWithinOneAccountAReplySubjectReachesAStream(t *testing.T) {
	t.Parallel()
	g := guard(t, false)
	before := g.stored(t)
	inside := dial(t, ConnConfig{Server: g.bus, Name: "inside", Credentials: must(g.op.Service("inside"))})
	if err := inside.PublishRequest(events.AgentSubject(job, 2, events.VerbRenew), "sf.v1.money.acme.settled", nil); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the answer landed in MONEY", func() bool { return g.stored(t) == before+1 })
}

func expectRefusal(t *testing.T, nc *nats.Conn, refused <-chan string, subject string, try func() error) {
	t.Helper()
	if err := try(); err != nil {
		t.Errorf("%s: %v", subject, err)
		return
	}
	if err := nc.Flush(); err != nil {
		t.Errorf("%s: %v", subject, err)
		return
	}
	select {
	case why := <-refused:
		if !strings.Contains(strings.ToLower(why), "permissions violation") {
			t.Errorf("%s: %s", subject, why)
		}
	case <-time.After(5 * time.Second):
		t.Errorf("%s was not refused", subject)
	}
}

// Permissions are the second wall. This user has none to hold it back, as if
// an account key had leaked: the account is the first.
func TestAnAccountAloneKeepsAJobIn(t *testing.T) {
	t.Parallel()
	g := guard(t, false)
	account, _, err := g.op.jobKey(job)
	if err != nil {
		t.Fatal(err)
	}
	kp := must(newKey(nkeys.PrefixByteUser, rand.Reader))
	c := jwt.NewUserClaims(must(kp.PublicKey()))
	creds := Credentials{JWT: must(issue(c, account, time.Now())), Seed: string(must(kp.Seed()))}
	nc := dial(t, ConnConfig{Server: g.bus, Credentials: creds})

	before, asked := g.stored(t), g.asked.Load()
	for _, subject := range []string{
		events.AgentSubject(jobB, 1, events.VerbRenew), "sf.api.job.ls", "sf.v1.money.acme.settled", "sf.v1.job.acme." + string(job) + ".ended",
		"$JS.API.STREAM.INFO.JOBS", "$JS.API.STREAM.DELETE.MONEY",
	} {
		if m, err := nc.Request(subject, []byte("{}"), time.Second); !errors.Is(err, nats.ErrNoResponders) && !strings.Contains(answer(m), "not enabled") {
			t.Errorf("%s: answer %q, %v; want no responders", subject, answer(m), err)
		}
	}
	if after := g.stored(t); after != before || g.asked.Load() != asked {
		t.Errorf("%d messages got into the streams, %d to the gateway", after-before, g.asked.Load()-asked)
	}
}

func answer(m *nats.Msg) string {
	if m == nil {
		return ""
	}
	return string(m.Data)
}

func TestRevocationCutsALiveConnectionAndLasts(t *testing.T) {
	t.Parallel()
	g := guard(t, true)
	creds, pub := g.agent(t, job, 1)
	next, _ := g.agent(t, job, 2)
	var cut atomic.Int64
	old := dial(t, ConnConfig{URL: g.bus.URL(), Name: "old", Credentials: creds, Denied: func(error) { cut.Store(time.Now().UnixNano()) }})
	heir := dial(t, ConnConfig{URL: g.bus.URL(), Name: "heir", Credentials: next})
	began := time.Now()
	if err := g.accounts.Revoke(t.Context(), job, pub); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the old connection was cut", func() bool { return cut.Load() != 0 })
	t.Logf("cut after %v", time.Unix(0, cut.Load()).Sub(began))
	if err := heir.Flush(); err != nil {
		t.Errorf("the next epoch's connection was cut, too: %v", err)
	}
	if old.IsClosed() {
		t.Error("the old connection has given up; it must go on trying")
	}
	for _, again := range []struct {
		name string
		do   func() error
	}{
		{"the account is added again", func() error { return g.accounts.AddJob(t.Context(), job) }},
		{"another key is revoked", func() error {
			return g.accounts.Revoke(t.Context(), job, must(must(newKey(nkeys.PrefixByteUser, rand.Reader)).PublicKey()))
		}},
		{"the key gets a new token", func() error {
			token, err := g.op.User(job, 1, pub, Validity{From: time.Now().Add(time.Hour), To: time.Now().Add(2 * time.Hour)})
			creds.JWT = token
			return err
		}},
	} {
		if err := again.do(); err != nil {
			t.Fatal(err)
		}
		nc, err := Connect(ConnConfig{URL: g.bus.URL(), Name: "zombie", Credentials: creds})
		if err == nil {
			nc.Close()
			t.Errorf("after %s the revoked key could connect", again.name)
		}
	}
}

func TestADroppedJobIsCutAndCanBeAddedAgain(t *testing.T) {
	t.Parallel()
	g := guard(t, false)
	creds, _ := g.agent(t, job, 1)
	var cut atomic.Bool
	dial(t, ConnConfig{Server: g.bus, Name: "agent", Credentials: creds, Denied: func(error) { cut.Store(true) }})
	for range 2 { // twice is once
		if err := g.accounts.DropJob(t.Context(), job); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the connection was cut", cut.Load)
	if nc, err := Connect(ConnConfig{Server: g.bus, Name: "late", Credentials: creds}); err == nil {
		nc.Close()
		t.Error("a user of a dropped job could connect")
	}
	if err := g.accounts.AddJob(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	dial(t, ConnConfig{Server: g.bus, Name: "again", Credentials: creds})
}

func TestJobAccountsOutliveTheServer(t *testing.T) {
	t.Parallel()
	dir := natsbustest.Dir(t)
	op := openOperator(t, dir, rand.Reader)
	start := func(o *Operator) *Embedded {
		e, err := Start(EmbeddedConfig{Dir: filepath.Join(dir, "bus"), Operator: o})
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	e := start(op)
	g := &guarded{op: op}
	gone, pub := g.agent(t, job, 1)
	stays, _ := g.agent(t, job, 2)
	sys := dial(t, ConnConfig{Server: e, Credentials: must(op.System("sys"))})
	a := NewAccounts(op, sys)
	if err := a.AddJob(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	if err := a.Revoke(t.Context(), job, pub); err != nil {
		t.Fatal(err)
	}
	sys.Close()
	e.Shutdown()

	e = start(openOperator(t, dir, rand.Reader))
	defer e.Shutdown()
	dial(t, ConnConfig{Server: e, Credentials: stays}).Close()
	if nc, err := Connect(ConnConfig{Server: e, Credentials: gone}); err == nil {
		nc.Close()
		t.Error("a revoked key could connect after the restart")
	}
}

func TestOperatorKeysAreRefusedWhenTheyCannotBeTrusted(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		spoil func(t *testing.T, path string)
		want  string
	}{
		{"others can read them", func(t *testing.T, path string) {
			if err := os.Chmod(path, 0o644); err != nil {
				t.Fatal(err)
			}
		}, "chmod 600"},
		{"garbage", func(t *testing.T, path string) { write(t, path, "garbage") }, "cannot be read"},
		{"a key is missing", func(t *testing.T, path string) {
			write(t, path, `{"format":1,"jobs":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="}`)
		}, "cannot be read"},
		{"a newer version's", func(t *testing.T, path string) { write(t, path, `{"format":9}`) }, "newer program"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			dir := natsbustest.Dir(t)
			openOperator(t, dir, rand.Reader)
			tc.spoil(t, filepath.Join(dir, "operator", keysFile))
			_, err := OpenOperator(OperatorConfig{Dir: filepath.Join(dir, "operator"), Entropy: rand.Reader, Now: time.Now})
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("err = %v, want %q", err, tc.want)
			}
		})
	}
}

func TestACredentialEnds(t *testing.T) {
	dir := natsbustest.Dir(t)
	natsbustest.Bubble(t, func(t *testing.T) {
		op := openOperator(t, dir, seeded(1))
		bus, err := Start(EmbeddedConfig{Dir: filepath.Join(dir, "bus"), Operator: op})
		if err != nil {
			t.Fatal(err)
		}
		defer bus.Shutdown()
		sys, err := Connect(ConnConfig{Server: bus, Name: "sys", Credentials: must(op.System("sys"))})
		if err != nil {
			t.Fatal(err)
		}
		defer sys.Close()
		if err := NewAccounts(op, sys).AddJob(t.Context(), job); err != nil {
			t.Fatal(err)
		}
		g := &guarded{op: op}
		creds, _ := g.agent(t, job, 1)
		ended := make(chan time.Time, 100)
		nc, err := Connect(ConnConfig{Server: bus, Name: "agent", Credentials: creds, Denied: func(error) {
			select {
			case ended <- time.Now():
			default:
			}
		}})
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		began := time.Now()
		if d := (<-ended).Sub(began); d < 59*time.Minute || d > 61*time.Minute {
			t.Errorf("a credential of one hour ended after %v", d)
		}
		time.Sleep(2 * time.Second)
		// A refused in-process dial answers at once and leaves nothing behind.
		began = time.Now()
		if late, err := Connect(ConnConfig{Server: bus, Name: "late", Credentials: creds}); err == nil || time.Since(began) > time.Second {
			t.Errorf("Connect = %v, %v after %v; want a refusal at once", late != nil, err, time.Since(began))
		}
	})
}

func TestMintingIsRepeatable(t *testing.T) {
	t.Parallel()
	dir := natsbustest.Dir(t)
	op := openOperator(t, dir, rand.Reader)
	v := Validity{From: epoch0, To: epoch0.Add(time.Hour)}
	lease := job.Lease(2, 1)
	first := must(op.Bootstrap(job, 2, lease, v))
	_, account, err := op.jobKey(job)
	if err != nil {
		t.Fatal(err)
	}
	again := openOperator(t, dir, rand.Reader) // loads the same keys
	if second := must(again.Bootstrap(job, 2, lease, v)); second != first {
		t.Error("after a restart the bootstrap text is another")
	}
	if _, a, _ := again.jobKey(job); a != account {
		t.Error("after a restart the job's account is another")
	}
	if other := must(again.Bootstrap(job, 2, job.Lease(2, 2), v)); other == first {
		t.Error("two leases have the same bootstrap text")
	}
	if _, err := op.User(job, 1, "not a key", v); err == nil {
		t.Error("a key that is none was accepted")
	}
	if _, err := op.User("a.b", 1, must(must(newKey(nkeys.PrefixByteUser, rand.Reader)).PublicKey()), v); err == nil {
		t.Error("a job id that is no token was accepted")
	}
	if _, err := op.Bootstrap("*", 1, lease, v); err == nil {
		t.Error("a wildcard job was accepted")
	}
	one, two := openOperator(t, natsbustest.Dir(t), seeded(7)), openOperator(t, natsbustest.Dir(t), seeded(7))
	if one.main != two.main {
		t.Error("the same entropy gave two installations")
	}
}

func TestCredentialsDoNotPrint(t *testing.T) {
	t.Parallel()
	c := Credentials{JWT: "token", Seed: "SUSECRET"}
	if s := fmt.Sprintf("%v %+v %#v %s", c, c, c, c); strings.Contains(s, "SECRET") {
		t.Errorf("printed %q", s)
	}
}

func TestPeopleAskTheAPI(t *testing.T) {
	t.Parallel()
	g := guard(t, false)
	creds := must(g.op.Person("ann", "operator", Validity{From: time.Now()}))
	creds = must(ParseCredentials(must(creds.Text())))
	if role, name, err := creds.Person(); err != nil || role != "operator" || name != "ann" {
		t.Errorf("Person = %q, %q, %v", role, name, err)
	}
	nc := dial(t, ConnConfig{Server: g.bus, Name: "cli", Credentials: creds})
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if m, err := nc.RequestWithContext(ctx, "sf.api.operator.ann.jobs", nil); err != nil || answer(m) != "answer to sf.api.operator.ann.jobs" {
		t.Errorf("Request = %q, %v", answer(m), err)
	}
}

func TestWhoIsNobodyHasNoCredential(t *testing.T) {
	t.Parallel()
	op := openOperator(t, t.TempDir(), rand.Reader)
	for _, who := range [][2]string{{"", "viewer"}, {"ann", ""}, {"*", "viewer"}, {"ann", ">"}, {"ann.x", "viewer"}, {"Ann", "viewer"}, {"ann", "viewer.bob"}} {
		if _, err := op.Person(who[0], who[1], Validity{From: time.Now()}); err == nil {
			t.Errorf("a credential for %q in role %q", who[0], who[1])
		}
	}
	if _, _, err := must(op.Service("gateway")).Person(); err == nil {
		t.Error("a service is a person")
	}
}
