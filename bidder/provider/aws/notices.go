package aws

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/spotferry/spotferry/bidder/provider"
	"github.com/spotferry/spotferry/events"
)

// How a queue is read: a call waits so long for a message, and one that was not
// deleted within so long is given again.
const (
	waitS    = 20
	hiddenS  = 60
	perBatch = 10
)

// lead is how long before an interruption EC2 says so.
const lead = 120 * time.Second

// Notices implements provider.Notifier: it reads the queues that the seller's
// events are sent to until ctx ends or a queue cannot be read.
func (c *Client) Notices(ctx context.Context, deliver func(provider.Notice)) error {
	if ctx.Err() != nil {
		return provider.HeldBack(ctx, provider.OpNotices)
	}
	g, gctx := errgroup.WithContext(ctx)
	seen := &told{ids: map[string]bool{}}
	for _, r := range c.regions {
		if r.Queue != "" {
			g.Go(func() error { return c.listen(gctx, r, seen, deliver) })
		}
	}
	if !c.Capabilities().Notices {
		return &provider.Error{Kind: provider.Invalid, Op: provider.OpNotices, Scope: "seller", Code: "NoQueue", Message: "no region has a Queue: name one to hear of interruptions"}
	}
	err := g.Wait()
	if ctx.Err() != nil || err == nil {
		return nil
	}
	return classify(provider.OpNotices, err)
}

func (c *Client) listen(ctx context.Context, r *region, seen *told, deliver func(provider.Notice)) error {
	for {
		out, err := r.sqs.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
			QueueUrl: &r.Queue, MaxNumberOfMessages: perBatch, WaitTimeSeconds: waitS, VisibilityTimeout: hiddenS,
		})
		if err != nil {
			return err
		}
		for _, m := range out.Messages {
			c.hear(r, aws.ToString(m.Body), seen, deliver)
			// Deleted last: what is heard twice is told once.
			if _, err := r.sqs.DeleteMessage(ctx, &sqs.DeleteMessageInput{QueueUrl: &r.Queue, ReceiptHandle: m.ReceiptHandle}); err != nil {
				return err
			}
		}
	}
}

func (c *Client) hear(r *region, body string, seen *told, deliver func(provider.Notice)) {
	e, notice, ok := parseEvent(body, c.cfg.Now().Control)
	fields := []zap.Field{
		zap.String("region", r.Name), zap.String("event", short(e.ID)), zap.String("kind", short(e.Kind)), zap.String("instance", short(e.Detail.Instance)),
	}
	if !ok {
		c.log.Debug("event of no interest", fields...)
		return
	}
	seen.once(e.ID, func() {
		c.log.Info("interruption announced", append(fields, zap.Time("deadline", notice.Deadline))...)
		deliver(notice)
	})
}

// event is what EventBridge sends. Where the machine is is not read from its
// resource name, which has the zone where a region belongs and lacks the account.
type event struct {
	ID     string `json:"id"`
	Kind   string `json:"detail-type"`
	Source string `json:"source"`
	Time   string `json:"time"`
	Detail struct {
		Instance string `json:"instance-id"`
		Action   string `json:"instance-action"`
	} `json:"detail"`
}

// parseEvent reads an event; false if it announces no interruption. The deadline
// lies two minutes after the event, but never later than two minutes from now,
// nor before now: an event may be old, or of a clock that is not ours.
func parseEvent(body string, now time.Time) (event, provider.Notice, bool) {
	var e event
	if err := json.Unmarshal([]byte(body), &e); err != nil {
		return event{}, provider.Notice{}, false
	}
	if e.Kind != "EC2 Spot Instance Interruption Warning" || e.Source != "aws.ec2" || !usable(e.Detail.Instance) {
		return e, provider.Notice{}, false
	}
	latest := now.Add(lead)
	deadline := latest
	if at, err := time.Parse(time.RFC3339, e.Time); err == nil && at.Add(lead).Before(latest) {
		deadline = at.Add(lead)
	}
	if deadline.Before(now) || e.Detail.Action == "hibernate" { // that one begins at once
		deadline = now
	}
	return e, provider.Notice{Instance: events.InstanceID(e.Detail.Instance), Deadline: deadline.UTC()}, true
}

// told are the events that were passed on: each comes at least once.
type told struct {
	mu    sync.Mutex
	ids   map[string]bool
	order []string
}

// mostTold bounds what is remembered of events.
const mostTold = 4096

// once calls do unless id was there before. Calls come one at a time.
func (t *told) once(id string, do func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if id != "" && t.ids[id] {
		return
	}
	if id != "" {
		t.ids[id] = true
		if t.order = append(t.order, id); len(t.order) > mostTold {
			delete(t.ids, t.order[0])
			t.order = t.order[1:]
		}
	}
	do()
}
