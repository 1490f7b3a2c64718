package natsbus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go"

	"github.com/spotferry/spotferry/events"
)

const (
	subjectUpdate = "$SYS.REQ.CLAIMS.UPDATE"
	subjectDelete = "$SYS.REQ.CLAIMS.DELETE"
	subjectLookup = "$SYS.REQ.ACCOUNT.%s.CLAIMS.LOOKUP"
	pushTries     = 5
	pushTimeout   = 5 * time.Second
)

// forever is the revocation time of a key that is never good again, whatever
// is issued for it later.
var forever = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

// Accounts creates, fences and removes the accounts of jobs on running servers,
// embedded and external alike. Every method may be repeated.
type Accounts struct {
	operator *Operator
	nc       *nats.Conn
	turn     chan struct{} // full while an account is being changed: one at a time
}

// NewAccounts pushes over a connection made with Operator.System credentials.
func NewAccounts(o *Operator, system *nats.Conn) *Accounts {
	return &Accounts{operator: o, nc: system, turn: make(chan struct{}, 1)}
}

// AddJob makes sure that the job's account is there, and leaves its revocations alone.
func (a *Accounts) AddJob(ctx context.Context, job events.JobID) error {
	return a.change(ctx, job, func(*jwt.AccountClaims) {})
}

// Revoke makes a user key of the job worthless for good and cuts its live
// connections. It returns when the servers that answered have done so.
func (a *Accounts) Revoke(ctx context.Context, job events.JobID, publicKey string) error {
	return a.change(ctx, job, func(c *jwt.AccountClaims) { c.RevokeAt(publicKey, forever) })
}

// DropJob removes the job's account and cuts every connection of it.
func (a *Accounts) DropJob(ctx context.Context, job events.JobID) error {
	_, account, err := a.operator.jobKey(job)
	if err != nil {
		return err
	}
	pub, err := a.operator.operator.PublicKey()
	if err != nil {
		return err
	}
	c := jwt.NewGenericClaims(pub)
	c.Data["accounts"] = []string{account}
	token, err := issue(c, a.operator.operator, a.operator.now())
	if err != nil {
		return err
	}
	select {
	case a.turn <- struct{}{}:
		defer func() { <-a.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	return a.push(ctx, subjectDelete, job, token)
}

// change brings the job's account to what it should be. The servers hold the
// truth about revocations: they are read, added to, pushed and read again, so
// that two processes that revoke at once lose nothing.
func (a *Accounts) change(ctx context.Context, job events.JobID, edit func(*jwt.AccountClaims)) error {
	_, account, err := a.operator.jobKey(job)
	if err != nil {
		return err
	}
	select {
	case a.turn <- struct{}{}:
		defer func() { <-a.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	for range pushTries {
		have, err := a.lookup(ctx, account)
		if err != nil {
			return fmt.Errorf("reading the account of job %s: %w", job, err)
		}
		want := a.operator.jobClaims(job, account)
		// Servers ignore an account that says what they know already. One that is
		// dropped and added within a second would stay dropped.
		want.Description = "made " + a.operator.now().UTC().Format(time.RFC3339Nano)
		if old, err := jwt.DecodeAccountClaims(have); err == nil {
			want.Revocations, want.Description = old.Revocations, old.Description
		}
		edit(want)
		if a.operator.same(want, have) {
			return nil
		}
		token, err := issue(want, a.operator.operator, a.operator.now())
		if err != nil {
			return err
		}
		if err := a.push(ctx, subjectUpdate, job, token); err != nil {
			return err
		}
	}
	return fmt.Errorf("changing the account of job %s: somebody else keeps changing it", job)
}

func (a *Accounts) lookup(ctx context.Context, account string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, pushTimeout)
	defer cancel()
	m, err := a.nc.RequestWithContext(ctx, fmt.Sprintf(subjectLookup, account), nil)
	if err != nil {
		return "", err
	}
	return string(m.Data), nil
}

type claimsReply struct {
	Error *struct {
		Description string `json:"description"`
	} `json:"error"`
}

func (a *Accounts) push(ctx context.Context, subject string, job events.JobID, token string) error {
	ctx, cancel := context.WithTimeout(ctx, pushTimeout)
	defer cancel()
	m, err := a.nc.RequestWithContext(ctx, subject, []byte(token))
	if err != nil {
		return fmt.Errorf("pushing the account of job %s: %w", job, err)
	}
	var r claimsReply
	if err := json.Unmarshal(m.Data, &r); err != nil {
		return fmt.Errorf("pushing the account of job %s: the server's answer cannot be read: %w", job, err)
	}
	if r.Error != nil {
		return fmt.Errorf("pushing the account of job %s: %w", job, errors.New(r.Error.Description))
	}
	return nil
}
