package installation

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/spotferry/spotferry/events/natsbus"
)

// busses are the two ways to serve an installation. Each returns the URL.
func busses() map[string]func(*testing.T, *Installation) string {
	return map[string]func(*testing.T, *Installation) string{
		"our own bus":         ownBus,
		"a stock nats-server": stockServer,
	}
}

func ownBus(t *testing.T, i *Installation) string {
	trust, err := natsbus.ReadTrust(i.TrustFile())
	if err != nil {
		t.Fatal(err)
	}
	b, err := natsbus.Start(natsbus.EmbeddedConfig{Dir: i.Path(BusDir), Listen: true, Trust: &trust})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Shutdown)
	return b.URL()
}

// stockServer does what the nats-server program does with its configuration.
func stockServer(t *testing.T, i *Installation) string {
	t.Chdir(i.Dir()) // its paths are relative
	opts, err := server.ProcessConfigFile("nats-server.conf")
	if err != nil {
		t.Fatal(err)
	}
	opts.Port, opts.NoSigs, opts.NoLog = server.RANDOM_PORT, true, true
	s, err := server.NewServer(opts)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(20 * time.Second) {
		t.Fatal("the server is not ready")
	}
	return s.ClientURL()
}

func connect(t *testing.T, url, file string) *nats.Conn {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	creds, err := natsbus.ParseCredentials(string(text))
	if err != nil {
		t.Fatal(err)
	}
	nc, err := natsbus.Connect(natsbus.ConnConfig{URL: url, Credentials: creds, Name: filepath.Base(file)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// may says whether the bus takes a message on a subject from a connection.
func may(t *testing.T, nc *nats.Conn, subject string) bool {
	t.Helper()
	if err := nc.Publish(subject, []byte("{}")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	err := nc.FlushWithContext(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return !errors.Is(nc.LastError(), nats.ErrPermissionViolation)
}

func TestEachProgramMayDoItsWorkAndNothingElse(t *testing.T) {
	for name, start := range busses() {
		t.Run(name, func(t *testing.T) {
			i := made(t)
			url := start(t, i)
			declared(t, connect(t, url, i.Creds("failover")))
			for _, tc := range []struct {
				program string
				allowed []string
				denied  []string
			}{
				{"watcher", []string{"sf.v1.offer.local.r.p", "sf.provider.local.offers"},
					[]string{"sf.v1.job.main.j.submitted", "sf.v1.lease.main.l.ended", "sf.v1.money.main.settled", "sf.provider.local.launch", "down.j.1", "sf.gateway.bootstrap"}},
				{"bidder", []string{"sf.v1.lease.main.l.intended", "sf.v1.money.main.reserved", "sf.provider.local.launch", "sf.gateway.bootstrap"},
					[]string{"sf.v1.job.main.j.placed", "sf.v1.offer.local.r.p", "down.j.1", "agent.j.1.commit"}},
				{"failover", []string{"sf.v1.job.main.j.placed"},
					[]string{"sf.v1.lease.main.l.intended", "sf.v1.money.main.reserved", "sf.provider.local.launch", "down.j.1"}},
				{"gateway", []string{"sf.v1.job.main.j.committed", "down.j.1", "sf.v1.signal.main.j.1", "sf.v1.log.main.j.1", "$KV.sf_bootstrap.x"},
					[]string{"sf.v1.lease.main.l.intended", "sf.v1.money.main.reserved", "sf.provider.local.launch"}},
				{"ledger", []string{"sf.v1.money.main.settled"},
					[]string{"sf.v1.job.main.j.ended", "sf.v1.lease.main.l.ended", "sf.provider.local.terminate"}},
				{"console", []string{"sf.v1.job.main.j.submitted", "sf.v1.ops.main.frozen", "sf.v1.money.main.budget-set", "sf.bidder.plan"},
					[]string{"sf.v1.lease.main.l.intended", "sf.provider.local.launch", "sf.provider.local.terminate", "sf.gateway.bootstrap", "agent.j.1.commit"}},
				{"provider-local", []string{"sf.provider.local.notices"},
					[]string{"sf.v1.job.main.j.ended", "sf.v1.money.main.settled", "sf.provider.aws.launch"}},
			} {
				t.Run(tc.program, func(t *testing.T) {
					for _, s := range tc.allowed {
						if !may(t, connect(t, url, i.Creds(tc.program)), s) {
							t.Errorf("may not publish on %s", s)
						}
					}
					everywhere := []string{
						"$JS.API.STREAM.DELETE.JOBS", "$JS.API.STREAM.PURGE.MONEY", "$JS.API.STREAM.UPDATE.JOBS", "$JS.API.STREAM.MSG.DELETE.JOBS",
						"$JS.API.STREAM.CREATE.COPY", "$SYS.REQ.CLAIMS.UPDATE",
					}
					if tc.program != "gateway" {
						everywhere = append(everywhere, "$JS.API.STREAM.MSG.GET.KV_sf_bootstrap", "$JS.API.CONSUMER.CREATE.KV_sf_bootstrap.x", "$KV.sf_bootstrap.x")
					}
					for _, s := range append(tc.denied, everywhere...) {
						if may(t, connect(t, url, i.Creds(tc.program)), s) {
							t.Errorf("may publish on %s", s)
						}
					}
				})
			}
		})
	}
}

func declared(t *testing.T, nc *nats.Conn) {
	t.Helper()
	js, err := jetstream.New(nc)
	if err == nil {
		err = natsbus.Declare(t.Context(), js, 1)
	}
	if err == nil {
		err = natsbus.Declared(t.Context(), js)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestJobsAccountsComeAndGoOnEitherBus(t *testing.T) {
	for name, start := range busses() {
		t.Run(name, func(t *testing.T) {
			i := made(t)
			url := start(t, i)
			op, err := natsbus.OpenOperator(natsbus.OperatorConfig{Dir: i.OperatorDir(), Entropy: rand.Reader, Now: time.Now})
			if err != nil {
				t.Fatal(err)
			}
			system, err := op.System("gateway")
			if err != nil {
				t.Fatal(err)
			}
			nc, err := natsbus.Connect(natsbus.ConnConfig{URL: url, Credentials: system, Name: "accounts"})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(nc.Close)
			accounts := natsbus.NewAccounts(op, nc)
			if err := accounts.AddJob(t.Context(), "j1"); err != nil {
				t.Fatal(err)
			}
			join := func() error {
				text, err := op.Bootstrap("j1", 1, "j1-1-1", natsbus.Validity{From: time.Now().Add(-time.Minute), To: time.Now().Add(time.Hour)})
				if err != nil {
					return err
				}
				creds, err := natsbus.ParseCredentials(text)
				if err != nil {
					return err
				}
				c, err := natsbus.Connect(natsbus.ConnConfig{URL: url, Credentials: creds, Name: "machine"})
				if err == nil {
					c.Close()
				}
				return err
			}
			if err := join(); err != nil {
				t.Errorf("a machine of a job that is there: %v", err)
			}
			if err := accounts.DropJob(t.Context(), "j1"); err != nil {
				t.Fatal(err)
			}
			if err := join(); err == nil {
				t.Error("a machine of a job that is gone is let in")
			}
		})
	}
}

func TestAPersonOfTheInstallationAsksAsAdmin(t *testing.T) {
	t.Parallel()
	i := made(t)
	text, err := os.ReadFile(i.PersonCreds("admin"))
	if err != nil {
		t.Fatal(err)
	}
	creds, err := natsbus.ParseCredentials(string(text))
	if err != nil {
		t.Fatal(err)
	}
	if role, name, err := creds.Person(); err != nil || role != "admin" || name != "admin" {
		t.Error(fmt.Sprint(role, name, err))
	}
}
