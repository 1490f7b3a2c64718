package natsbus

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"github.com/spotferry/spotferry/events"
)

// maxJobConns leaves room for a half-dead machine's connections beside its successor's.
const maxJobConns = 8

// issue signs claims as of a given time. The library stamps the wall clock
// instead, and a token that is minted again must be the same byte for byte.
func issue(c jwt.Claims, signer nkeys.KeyPair, at time.Time) (string, error) {
	issuer, err := signer.PublicKey()
	if err != nil {
		return "", err
	}
	d := c.Claims()
	d.Issuer, d.IssuedAt, d.ID = issuer, at.Unix(), ""
	switch c := c.(type) {
	case *jwt.OperatorClaims:
		c.Type, c.Version = jwt.OperatorClaim, 2
	case *jwt.AccountClaims:
		c.Type, c.Version = jwt.AccountClaim, 2
	case *jwt.UserClaims:
		c.Type, c.Version = jwt.UserClaim, 2
	case *jwt.GenericClaims:
	}
	bare, err := json.Marshal(c)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(bare)
	d.ID = hex.EncodeToString(sum[:16])
	payload, err := json.Marshal(c)
	if err != nil {
		return "", err
	}
	enc := base64.RawURLEncoding
	signed := enc.EncodeToString([]byte(`{"typ":"JWT","alg":"ed25519-nkey"}`)) + "." + enc.EncodeToString(payload)
	sig, err := signer.Sign([]byte(signed))
	if err != nil {
		return "", err
	}
	return signed + "." + enc.EncodeToString(sig), nil
}

// fixed returns the claims of the accounts that every installation has.
func (o *Operator) fixed() []*jwt.AccountClaims {
	sys := jwt.NewAccountClaims(o.sys)
	sys.Name = "SYS"
	people := jwt.NewAccountClaims(o.folk)
	people.Name = "PEOPLE"
	people.Limits.DisallowBearer = true
	// Share tells the API who asks: the server names account and user in a header.
	people.Imports.Add(&jwt.Import{Name: "api", Account: o.main, Subject: "sf.api.>", Type: jwt.Service, Share: true})
	return []*jwt.AccountClaims{sys, o.mainClaims(), people}
}

func (o *Operator) mainClaims() *jwt.AccountClaims {
	c := jwt.NewAccountClaims(o.main)
	c.Name = "MAIN"
	c.Limits.JetStreamLimits = jwt.JetStreamLimits{
		MemoryStorage: jwt.NoLimit, DiskStorage: jwt.NoLimit, Streams: jwt.NoLimit, Consumer: jwt.NoLimit,
		MaxAckPending: jwt.NoLimit, MemoryMaxStreamBytes: jwt.NoLimit, DiskMaxStreamBytes: jwt.NoLimit,
	}
	c.Exports.Add(
		&jwt.Export{Name: "agents", Subject: "agent.*.>", Type: jwt.Service, ResponseType: jwt.ResponseTypeSingleton},
		&jwt.Export{Name: "api", Subject: "sf.api.>", Type: jwt.Service, ResponseType: jwt.ResponseTypeStream},
		&jwt.Export{Name: "orders", Subject: "down.*.>", Type: jwt.Stream},
	)
	return c
}

func (o *Operator) jobClaims(job events.JobID, account string) *jwt.AccountClaims {
	c := jwt.NewAccountClaims(account)
	c.Name = string(job)
	c.Limits.Conn, c.Limits.LeafNodeConn = maxJobConns, 0
	c.Limits.Imports, c.Limits.Exports, c.Limits.WildcardExports = 2, 0, false
	c.Limits.DisallowBearer = true
	c.Limits.Payload = maxPayload
	c.Imports.Add(
		&jwt.Import{Name: "agents", Account: o.main, Subject: jwt.Subject("agent." + string(job) + ".>"), Type: jwt.Service},
		&jwt.Import{Name: "orders", Account: o.main, Subject: jwt.Subject("down." + string(job) + ".>"), Type: jwt.Stream},
	)
	return c
}

// Validity is the time in which a credential is good. From is also what is
// written into it, so that the same validity gives the same token.
type Validity struct{ From, To time.Time }

// User mints the credential of the agent of a job's epoch for the public nkey
// that the agent made. It may ask on agent.<job>.<epoch>.> and hear
// down.<job>.<epoch>, nothing else. The same arguments give the same token.
func (o *Operator) User(job events.JobID, epoch int, publicKey string, v Validity) (string, error) {
	if !nkeys.IsValidPublicUserKey(publicKey) {
		return "", fmt.Errorf("key %.80q is not a public user nkey", publicKey)
	}
	account, _, err := o.jobKey(job)
	if err != nil {
		return "", err
	}
	c := limitedUser(publicKey, fmt.Sprintf("%s-%d", job, epoch), v)
	c.Pub.Allow.Add(fmt.Sprintf("agent.%s.%d.>", job, epoch))
	c.Sub.Allow.Add(events.DownSubject(job, epoch))
	return issue(c, account, v.From)
}

// Bootstrap mints what a lease's machine is born with: a credential that can
// ask to join and hear the answer. The same arguments give the same text, also
// after a restart, so that a repeated create repeats its user data.
func (o *Operator) Bootstrap(job events.JobID, epoch int, lease events.LeaseID, v Validity) (string, error) {
	account, _, err := o.jobKey(job)
	if err != nil {
		return "", err
	}
	kp, err := o.derive(nkeys.PrefixByteUser, "bootstrap", string(lease))
	if err != nil {
		return "", err
	}
	pub, err := kp.PublicKey()
	if err != nil {
		return "", err
	}
	c := limitedUser(pub, string(lease), v)
	c.Pub.Allow.Add(events.AgentSubject(job, epoch, events.VerbJoin))
	token, err := issue(c, account, v.From)
	if err != nil {
		return "", err
	}
	return credentials(token, kp)
}

// Service mints a credential that may do everything in MAIN. It is made anew at each start.
func (o *Operator) Service(name string) (Credentials, error) {
	return o.mint(o.mainKey, func(pub string) *jwt.UserClaims {
		c := jwt.NewUserClaims(pub)
		c.Name = name
		return c
	})
}

// System mints the credential with which accounts are pushed.
func (o *Operator) System(name string) (Credentials, error) {
	return o.mint(o.system, func(pub string) *jwt.UserClaims {
		c := limitedUser(pub, name, Validity{})
		c.Pub.Allow.Add("$SYS.REQ.CLAIMS.UPDATE", "$SYS.REQ.CLAIMS.DELETE", "$SYS.REQ.ACCOUNT.*.CLAIMS.LOOKUP")
		return c
	})
}

// Person mints the credential of a command line: requests to the API in a role
// and under a name, and their answers. Both stand in the subjects it may ask on
// and nobody else may, so that whoever answers can believe them. A zero To never expires.
func (o *Operator) Person(name, role string, v Validity) (Credentials, error) {
	if err := errors.Join(events.CheckToken("user", name), events.CheckToken("role", role)); err != nil {
		return Credentials{}, fmt.Errorf("making a person's credential: %w", err)
	}
	return o.mint(o.people, func(pub string) *jwt.UserClaims {
		c := limitedUser(pub, name, v)
		c.Pub.Allow.Add(apiRoot + role + "." + name + apiRest)
		return c
	})
}

// A person asks on sf.api.<role>.<name>.<verb>.
const (
	apiRoot = "sf.api."
	apiRest = ".*"
)

func (o *Operator) mint(account nkeys.KeyPair, claims func(pub string) *jwt.UserClaims) (Credentials, error) {
	kp, err := newKey(nkeys.PrefixByteUser, o.entropy)
	if err != nil {
		return Credentials{}, err
	}
	pub, err := kp.PublicKey()
	if err != nil {
		return Credentials{}, err
	}
	token, err := issue(claims(pub), account, o.now())
	if err != nil {
		return Credentials{}, err
	}
	seed, err := kp.Seed()
	return Credentials{JWT: token, Seed: string(seed)}, err
}

// limitedUser may hear its own inbox and nothing else yet.
func limitedUser(pub, name string, v Validity) *jwt.UserClaims {
	c := jwt.NewUserClaims(pub)
	c.Name = name
	c.Limits.Payload = maxPayload
	c.Sub.Allow.Add(inboxOf(pub) + ".>")
	c.AllowedConnectionTypes.Add(jwt.ConnectionTypeStandard, jwt.ConnectionTypeInProcess)
	if !v.To.IsZero() {
		c.Expires = v.To.Unix()
	}
	return c
}

// inboxOf is where the answers to a user's requests arrive: nobody else may listen there.
func inboxOf(publicKey string) string { return "_INBOX." + publicKey }
