package machine

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/failover/agent"
)

// The variables that say how this machine is told that it will be taken, and how
// many seconds before. They win over what the bootstrap says.
const (
	noticeKindVariable    = "SPOTFERRY_NOTICE_KIND"
	noticeSecondsVariable = "SPOTFERRY_NOTICE_SECONDS"
)

// afterSignal is how long after its notice a machine is given to be taken, until
// the agent ends by itself.
const afterSignal = 5 * time.Second

// channel is how the seller speaks to this machine.
type channel struct {
	boot     events.Bootstrap
	kind     events.NoticeKind
	notice   time.Duration // how long before the end the machine is told, at most
	metadata agent.Metadata
	close    func()
}

// openChannel finds out what the machine was born with and how it will be warned.
// Either may tell where the other is: the bootstrap comes from a file, which names
// the kind, or from the metadata service, whose kind the environment names.
func openChannel(ctx context.Context, c AgentConfig) (*channel, error) {
	ch := &channel{kind: events.NoticeKind(c.Getenv(noticeKindVariable)), close: func() {}}
	var err error
	if c.UserData != "" {
		if ch.boot, err = agent.LoadBootstrap(ctx, c.UserData, nil); err != nil {
			return nil, err
		}
		ch.kind = cmp.Or(ch.kind, ch.boot.NoticeKind)
	}
	ch.kind = cmp.Or(ch.kind, events.NoticeEC2)
	if err := ch.open(c); err != nil {
		return nil, err
	}
	if c.UserData == "" {
		if ch.boot, err = agent.LoadBootstrap(ctx, "", ch.metadata); err != nil {
			ch.close()
			return nil, err
		}
		if err := ch.reopen(c); err != nil {
			return nil, err
		}
	}
	return ch, nil
}

// reopen goes over to the channel that a bootstrap names which came by another.
func (ch *channel) reopen(c AgentConfig) error {
	kind := cmp.Or(events.NoticeKind(c.Getenv(noticeKindVariable)), ch.boot.NoticeKind, events.NoticeEC2)
	if kind == ch.kind && ch.boot.NoticeS == 0 {
		return nil
	}
	ch.kind = kind
	ch.close()
	return ch.open(c)
}

func (ch *channel) open(c AgentConfig) error {
	notice, err := seconds(c.Getenv(noticeSecondsVariable))
	if err != nil {
		return err
	}
	notice = cmp.Or(notice, time.Duration(ch.boot.NoticeS)*time.Second)
	r, err := agent.OpenMetadata(ch.kind, c.Getenv(agent.MetadataEndpointVariable), notice)
	if err != nil {
		return err
	}
	ch.notice = cmp.Or(notice, agent.UsualNotice(ch.kind))
	var born agent.Metadata
	if r != nil {
		born, ch.close = r, r.Close
	}
	ch.metadata = born
	if ch.kind == events.NoticeNone || ch.kind == events.NoticeSignal {
		ch.metadata = &agent.Mute{Born: born, ID: events.InstanceID(c.Getenv("SPOTFERRY_INSTANCE"))}
	}
	return nil
}

// seconds reads a whole number of them; "" is 0.
func seconds(s string) (time.Duration, error) {
	if s == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(s, 10, 31)
	if err != nil || n > 7*24*3600 {
		return 0, fmt.Errorf("%s is %.40q: give a whole number of seconds", noticeSecondsVariable, s)
	}
	return time.Duration(n) * time.Second, nil
}

// every is how often notices are looked for. A signal costs nothing to look for,
// and may leave five seconds.
func (ch *channel) every(beat time.Duration) time.Duration {
	if ch.kind == events.NoticeSignal {
		return 20 * time.Millisecond
	}
	return between(20*time.Millisecond, beat/10, 500*time.Millisecond)
}

// outlast makes of the end of ctx, which is SIGTERM, a notice where it is one: the
// only one, or, on a machine of Compute Engine, what an ACPI shutdown comes down to.
// The agent's own context then goes on until the machine should have been taken.
// Elsewhere the agent ends with ctx.
func (ch *channel) outlast(ctx context.Context, cfg *agent.Config) (context.Context, context.CancelFunc) {
	if ch.kind != events.NoticeSignal && ch.kind != events.NoticeGCP {
		return context.WithCancel(ctx)
	}
	cfg.Metadata = agent.NewSignalled(ch.metadata, ch.notice, ctx.Done())
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx)) // the last save must outlive the signal
	stop := context.AfterFunc(ctx, func() {
		t := time.AfterFunc(ch.notice+afterSignal, cancel)
		context.AfterFunc(longer, func() { t.Stop() })
	})
	return longer, func() { stop(); cancel() }
}
