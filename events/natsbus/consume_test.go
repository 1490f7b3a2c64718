package natsbus

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/events/natsbus/natsbustest"
)

var subJobs = events.Subscription{Name: "c", Filters: []string{events.FilterJobs}}

// bubble runs f with a declared log inside a bubble of virtual time.
func bubble(t *testing.T, o Options, f func(t *testing.T, l *Log)) {
	t.Helper()
	dir := natsbustest.Dir(t)
	natsbustest.Bubble(t, func(t *testing.T) {
		e, err := Start(EmbeddedConfig{Dir: filepath.Join(dir, "bus")})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Shutdown()
		nc, err := Connect(ConnConfig{Server: e, Name: "test"})
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		l, err := New(nc, o)
		if err == nil {
			err = Declare(t.Context(), l.JetStream(), 1)
		}
		if err != nil {
			t.Fatal(err)
		}
		f(t, l)
	})
}

// seen records deliveries with their virtual time since the start.
type seen struct {
	mu    sync.Mutex
	began time.Time
	ids   []events.EventID
	at    []time.Duration
}

func (s *seen) add(e events.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ids, s.at = append(s.ids, e.ID), append(s.at, time.Since(s.began).Round(10*time.Millisecond))
}

func (s *seen) list() []events.EventID {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.ids)
}

func TestAHandlerSlowerThanItsWaitGetsTheEventOnce(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, l *Log) {
		all := grow(t, l, events.JobAggregate(org, job), 3)
		ctx, cancel := context.WithCancel(t.Context())
		var got seen
		go func() {
			time.Sleep(20 * time.Minute)
			cancel()
		}()
		err := l.Consume(ctx, subJobs, func(_ context.Context, e events.Event) error {
			got.add(e)
			time.Sleep(2 * time.Minute) // four times the wait
			return nil
		})
		if want := []events.EventID{all[0].ID, all[1].ID, all[2].ID}; err != nil || !slices.Equal(got.ids, want) {
			t.Errorf("handled %v, %v; want %v once each", got.ids, err, want)
		}
	})
}

func TestAnEventWhoseHandlerFailsComesBackAndHoldsNobodyUp(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, l *Log) {
		all := grow(t, l, events.JobAggregate(org, job), 3)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		got := seen{began: time.Now()}
		failures := 0
		err := l.Consume(ctx, subJobs, func(_ context.Context, e events.Event) error {
			got.add(e)
			if e.ID == all[0].ID && failures < 9 {
				failures++
				return errors.New("not now")
			}
			return nil
		})
		var back []time.Duration // when the failing event came
		others := map[events.EventID]time.Duration{}
		for i, id := range got.ids {
			if id == all[0].ID {
				back = append(back, got.at[i])
			} else {
				others[id] = got.at[i]
			}
		}
		if err != nil || len(back) != 10 || len(got.ids) != 12 || len(others) != 2 {
			t.Fatalf("handled %v, %v", got.ids, err)
		}
		for id, at := range others {
			if at > pullExpiry+50*time.Millisecond {
				t.Errorf("%s was held up for %v", id, at)
			}
		}
		for i, pause := range []time.Duration{250, 500, 1000, 2000, 4000, 8000, 16000, 30000, 30000} {
			pause *= time.Millisecond
			if d := back[i+1] - back[i]; d < pause || d > pause+pullExpiry {
				t.Errorf("pause %d was %v, want %v", i, d, pause)
			}
		}
		if n := l.o.Counters.Get(CountRetries, "c"); n != 9 {
			t.Errorf("%d retries counted, want 9", n)
		}
	})
}

func TestGarbageIsSetAsideByReferenceAndTheServiceGoesOn(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, l *Log) {
		a := events.JobAggregate(org, job)
		for _, m := range []*nats.Msg{
			{Subject: "sf.v1.job.acme.x.started", Data: []byte("\xff\x00garbage")},
			{Subject: "sf.v1.job.acme.x.y.z", Header: nats.Header{"ce-specversion": {"1.0"}, "ce-type": {"io.spotferry.job.dreamt.v1"}}},
		} {
			if _, err := l.JetStream().PublishMsg(t.Context(), m); err != nil {
				t.Fatal(err)
			}
		}
		all := grow(t, l, a, 2)
		for range 2 { // twice: the letters must not come again
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			var got seen
			if err := l.Consume(ctx, subJobs, func(_ context.Context, e events.Event) error { got.add(e); return nil }); err != nil {
				t.Error(err)
			}
			cancel()
			if len(got.ids) > 0 && !slices.Equal(got.ids, []events.EventID{all[0].ID, all[1].ID}) {
				t.Errorf("handled %v", got.ids)
			}
		}
		dead, err := l.DeadLetters(t.Context())
		if err != nil || len(dead) != 2 || dead[0].Sequence != 1 || dead[1].Sequence != 2 || dead[1].Type != "io.spotferry.job.dreamt.v1" {
			t.Errorf("dead letters = %+v, %v", dead, err)
		}
		if n := l.o.Counters.Get(CountDeadLetters, "c"); n != 2 {
			t.Errorf("%d dead letters counted, want 2", n)
		}
	})
}

func TestAConsumerThatIsDeletedIsMadeAnew(t *testing.T) {
	for _, name := range []string{"durable", ""} {
		t.Run("named "+name, func(t *testing.T) {
			bubble(t, Options{}, func(t *testing.T, l *Log) {
				a := events.JobAggregate(org, job)
				first := grow(t, l, a, 1)[0]
				ctx, cancel := context.WithCancel(t.Context())
				var got seen
				var wg sync.WaitGroup
				wg.Go(func() {
					sub := events.Subscription{Name: name, Filters: []string{events.FilterJobs}}
					if err := l.Consume(ctx, sub, func(_ context.Context, e events.Event) error { got.add(e); return nil }); err != nil {
						t.Error(err)
					}
				})
				time.Sleep(time.Minute)
				s, err := l.JetStream().Stream(ctx, StreamJobs)
				if err != nil {
					t.Fatal(err)
				}
				for c := range s.ConsumerNames(ctx).Name() {
					if err := s.DeleteConsumer(ctx, c); err != nil {
						t.Fatal(err)
					}
				}
				second, err := l.Append(ctx, first.Position, follow(t, a, &first, waiting(1)))
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(5 * time.Minute)
				cancel()
				wg.Wait()
				if ids := got.list(); len(ids) < 2 || ids[len(ids)-1] != second.ID {
					t.Errorf("handled %v, want %s at the end", ids, second.ID)
				}
			})
		})
	}
}

func TestPrivateSubscriptions(t *testing.T) {
	for _, tc := range []struct {
		name string
		sub  events.Subscription
		want int // the first of the five that is handled
	}{
		{"from the beginning", events.Subscription{}, 0},
		{"from a position", events.Subscription{From: 4}, 3},
		{"the newest of each subject", events.Subscription{Last: true}, 4},
		{"from behind the end", events.Subscription{From: 6}, 5},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bubble(t, Options{}, func(t *testing.T, l *Log) { checkPrivate(t, l, tc.sub, tc.want) })
		})
	}
}

func checkPrivate(t *testing.T, l *Log, sub events.Subscription, first int) {
	all := grow(t, l, events.JobAggregate(org, job), 5)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var got seen
	caught := -1
	sub.Filters = []string{events.FilterJobs}
	sub.CaughtUp = func() { caught = len(got.ids) }
	failed := false
	err := l.Consume(ctx, sub, func(_ context.Context, e events.Event) error {
		if !failed {
			failed = true
			return errors.New("not now")
		}
		got.add(e)
		return nil
	})
	var want []events.EventID
	for _, e := range all[first:] {
		want = append(want, e.ID)
	}
	if err != nil || !slices.Equal(got.ids, want) || caught != len(want) {
		t.Errorf("handled %v, caught up after %d, %v; want %v", got.ids, caught, err, want)
	}
	s, err := l.JetStream().Stream(t.Context(), StreamJobs)
	if err != nil || s.CachedInfo().State.Consumers != 0 {
		t.Errorf("%d consumers are left, %v", s.CachedInfo().State.Consumers, err)
	}
}

func TestReplicasShareAndAStoppedHandlerGivesItsEventBackAtOnce(t *testing.T) {
	bubble(t, Options{}, func(t *testing.T, l *Log) {
		all := grow(t, l, events.JobAggregate(org, job), 1)
		stopped, stop := context.WithCancel(t.Context())
		began := time.Now()
		var wg sync.WaitGroup
		wg.Go(func() {
			_ = l.Consume(stopped, subJobs, func(ctx context.Context, e events.Event) error {
				<-ctx.Done()
				return ctx.Err()
			})
		})
		time.Sleep(5 * time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var got seen
		got.began = began
		wg.Go(func() {
			_ = l.Consume(ctx, subJobs, func(_ context.Context, e events.Event) error { got.add(e); return nil })
		})
		time.Sleep(time.Second)
		stop()
		wg.Wait()
		if !slices.Equal(got.ids, []events.EventID{all[0].ID}) || got.at[0] > 7*time.Second {
			t.Errorf("the other replica handled %v at %v", got.ids, got.at)
		}
	})
}

func TestConsumeRefusesASubscriptionThatCannotBe(t *testing.T) {
	t.Parallel()
	l, _ := declared(t, Options{})
	for _, tc := range []struct {
		name string
		sub  events.Subscription
	}{
		{"no filter", events.Subscription{Name: "c"}},
		{"a filter of no stream", events.Subscription{Filters: []string{"foo.>"}}},
		{"filters of two streams", events.Subscription{Filters: []string{events.FilterJobs, events.FilterMoney}}},
		{"a shared one from a position", events.Subscription{Name: "c", Filters: []string{events.FilterJobs}, From: 1}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if err := l.Consume(t.Context(), tc.sub, nil); err == nil {
				t.Error("it was accepted")
			}
		})
	}
}

func TestConsumerSettingsAsTheServerHasThem(t *testing.T) {
	t.Parallel()
	l, _ := declared(t, Options{})
	d := durable{log: l, stream: StreamJobs, sub: events.Subscription{Name: "c", Filters: []string{events.FilterJobs, events.FilterLeases}, Wait: 7 * time.Second}}
	c, err := d.create(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := c.CachedInfo().Config
	if got.AckWait != 7*time.Second || got.MaxDeliver != -1 || got.InactiveThreshold != 0 || got.BackOff != nil ||
		got.AckPolicy != jetstream.AckExplicitPolicy || got.MaxAckPending != maxAckPending {
		t.Errorf("the server has %+v", got)
	}
}

func TestWrapIsPutAroundEveryHandler(t *testing.T) {
	t.Parallel()
	var wrapped []string
	l, _ := declared(t, Options{Wrap: func(s events.Subscription, h Handler) Handler {
		return func(ctx context.Context, e events.Event) error {
			wrapped = append(wrapped, s.Name+string(e.ID))
			return h(ctx, e)
		}
	}})
	all := grow(t, l, events.JobAggregate(org, job), 1)
	ctx, cancel := context.WithCancel(t.Context())
	if err := l.Consume(ctx, subJobs, func(context.Context, events.Event) error { cancel(); return nil }); err != nil {
		t.Fatal(err)
	}
	if want := []string{"c" + string(all[0].ID)}; !slices.Equal(wrapped, want) {
		t.Errorf("wrapped %v, want %v", wrapped, want)
	}
}
