package awsfake

import (
	"context"
	"crypto/md5"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spotferry/spotferry/bidder/provider"
)

// QueuePath is the path of the one queue there is, under the server's address.
const QueuePath = "/000000000000/interruptions"

// notice is how long before an interruption EC2 says so.
const notice = 2 * time.Minute

// message is one in the queue.
type message struct {
	id      string
	body    string
	hidden  time.Time // until then it is with somebody
	receipt string
}

// Run turns the warnings of the seller behind into events, until ctx ends or the
// seller fails. One that gives none has none.
func (s *Server) Run(ctx context.Context) error {
	notifier, ok := provider.As[provider.Notifier](s.cfg.Backend)
	if !ok {
		<-ctx.Done()
		return nil
	}
	return notifier.Notices(ctx, func(n provider.Notice) {
		if !n.Withdrawn { // EC2 takes none back
			s.announce(ctx, n)
		}
	})
}

// announce puts a warning into the queue.
func (s *Server) announce(ctx context.Context, n provider.Notice) {
	arn, region := "", ""
	if l, err := s.cfg.Backend.List(ctx); err == nil {
		for _, i := range l.Instances {
			if i.ID == n.Instance {
				arn, region = s.arn(i.Pool, i.ID), i.Pool.Region
			}
		}
	}
	send := func(kind string, detail map[string]string) {
		s.mu.Lock()
		s.sequence++
		id := fmt.Sprintf("%08x-0000-4000-8000-000000000000", s.sequence)
		s.mu.Unlock()
		detail["instance-id"] = string(n.Instance)
		body, err := json.Marshal(map[string]any{
			"version": "0", "id": id, "detail-type": kind, "source": "aws.ec2", "account": "000000000000",
			"time": n.Deadline.Add(-notice).UTC().Format(time.RFC3339), "region": region,
			"resources": []string{arn}, "detail": detail,
		})
		if err == nil {
			s.Send(string(body))
		}
		if err == nil && s.cfg.Twice {
			s.Send(string(body))
		}
	}
	if s.cfg.Rebalance {
		send("EC2 Instance Rebalance Recommendation", map[string]string{})
	}
	send("EC2 Spot Instance Interruption Warning", map[string]string{"instance-action": "terminate"})
}

// Send puts a message into the queue as it is.
func (s *Server) Send(body string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sequence++
	s.queue = append(s.queue, &message{id: fmt.Sprintf("m-%d", s.sequence), body: body})
	close(s.arrived)
	s.arrived = make(chan struct{})
}

// Waiting counts the messages that nobody has deleted.
func (s *Server) Waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.queue)
}

// serveQueue answers SQS's JSON protocol.
func (s *Server) serveQueue(w http.ResponseWriter, r *http.Request) {
	var in struct {
		QueueURL string `json:"QueueUrl"`
		Most     int    `json:"MaxNumberOfMessages"`
		Wait     int    `json:"WaitTimeSeconds"`
		Hidden   int    `json:"VisibilityTimeout"`
		Receipt  string `json:"ReceiptHandle"`
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		writeJSON(w, http.StatusBadRequest, map[string]string{"__type": "com.amazonaws.sqs#InvalidMessageContents", "message": err.Error()})
		return
	}
	action, _ := strings.CutPrefix(r.Header.Get("X-Amz-Target"), "AmazonSQS.")
	s.count("sqs:" + action)
	switch {
	case !strings.HasSuffix(in.QueueURL, QueuePath):
		writeJSON(w, http.StatusBadRequest, map[string]string{"__type": "com.amazonaws.sqs#QueueDoesNotExist", "message": "The specified queue does not exist."})
	case action == "ReceiveMessage":
		got := s.receive(r.Context(), max(in.Most, 1), time.Duration(in.Wait)*time.Second, time.Duration(in.Hidden)*time.Second)
		writeJSON(w, http.StatusOK, map[string]any{"Messages": got})
	case action == "DeleteMessage":
		s.mu.Lock()
		s.queue = slices.DeleteFunc(s.queue, func(m *message) bool { return m.receipt != "" && m.receipt == in.Receipt })
		s.mu.Unlock()
		writeJSON(w, http.StatusOK, map[string]any{})
	default:
		writeJSON(w, http.StatusBadRequest, map[string]string{"__type": "com.amazonaws.sqs#UnsupportedOperation", "message": action})
	}
}

// received is a message as it is handed out.
type received struct {
	ID      string `json:"MessageId"`
	Receipt string `json:"ReceiptHandle"`
	MD5     string `json:"MD5OfBody"`
	Body    string `json:"Body"`
}

// receive waits for messages as long as that, and hides what it hands out.
func (s *Server) receive(ctx context.Context, most int, wait, hide time.Duration) []received {
	patience := time.NewTimer(wait)
	defer patience.Stop()
	for {
		got, arrived := s.take(most, hide)
		if len(got) > 0 || wait == 0 {
			return got
		}
		select {
		case <-arrived:
		case <-patience.C:
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}

func (s *Server) take(most int, hide time.Duration) (got []received, arrived chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.cfg.Now().Control
	for _, m := range s.queue {
		if len(got) == min(most, 10) {
			break
		}
		if now.Before(m.hidden) {
			continue
		}
		s.sequence++
		m.hidden, m.receipt = now.Add(hide), fmt.Sprintf("receipt-%d", s.sequence)
		sum := md5.Sum([]byte(m.body))
		got = append(got, received{m.id, m.receipt, hex.EncodeToString(sum[:]), m.body})
	}
	return got, s.arrived
}

func writeJSON(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/x-amz-json-1.0")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // a client that is gone does not read it
}
