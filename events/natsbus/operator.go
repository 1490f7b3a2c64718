package natsbus

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"github.com/spotferry/spotferry/events"
)

const (
	keysFile   = "keys.json"
	keysFormat = 1
)

// Operator holds the keys from which every account and user of one installation
// follows: the operator's own, the system account's, MAIN's (where the services
// and JetStream live), the people's, and the secret that each job's account key
// is derived from. It mints; it sends nothing. Accounts sends.
//
// Who may do what:
//
//	MAIN    services: everything. It exports agent.*.> and down.*.>, and sf.api.> to people.
//	PEOPLE  the command line: requests on sf.api.<role>.<name>.*, its own, and their answers.
//	<job>   the agents of one job: agent.<job>.<epoch>.> and down.<job>.<epoch>.
//	SYS     whoever pushes accounts.
//
// Separate accounts, not permissions alone, keep them apart: a reply subject
// chosen by an agent or a person means nothing in MAIN.
type Operator struct {
	operator, system, mainKey, people nkeys.KeyPair
	sys, main, folk                   string // public keys of the accounts
	operatorJWT                       string
	secret                            []byte
	entropy                           io.Reader
	now                               func() time.Time
}

// OperatorConfig says where the keys are and what new ones are made from.
type OperatorConfig struct {
	// Dir holds the keys; it is created with new keys if it has none. Whoever can
	// read it can be anybody on the bus.
	Dir string
	// Entropy makes keys and nothing else: crypto/rand.Reader, or a seeded reader in a simulation.
	Entropy io.Reader
	Now     func() time.Time
}

type keys struct {
	Format   int    `json:"format"`
	Operator string `json:"operator"`
	System   string `json:"system"`
	Main     string `json:"main"`
	People   string `json:"people"`
	Jobs     []byte `json:"jobs"`
}

// OpenOperator loads the keys of a directory, or makes them.
func OpenOperator(c OperatorConfig) (*Operator, error) {
	path := filepath.Join(c.Dir, keysFile)
	k, err := loadKeys(path)
	if errors.Is(err, fs.ErrNotExist) {
		k, err = createKeys(path, c.Entropy)
	}
	if err != nil {
		return nil, err
	}
	o := &Operator{secret: k.Jobs, entropy: c.Entropy, now: c.Now}
	for _, s := range []struct {
		seed string
		key  *nkeys.KeyPair
		pub  *string
	}{
		{k.Operator, &o.operator, nil}, {k.System, &o.system, &o.sys}, {k.Main, &o.mainKey, &o.main}, {k.People, &o.people, &o.folk},
	} {
		if *s.key, err = nkeys.FromSeed([]byte(s.seed)); err == nil && s.pub != nil {
			*s.pub, err = (*s.key).PublicKey()
		}
		if err != nil {
			return nil, fmt.Errorf("operator keys %s hold a key that cannot be read: restore the file from a backup", path)
		}
	}
	return o, o.signSelf()
}

func loadKeys(path string) (keys, error) {
	st, err := os.Stat(path)
	if err != nil {
		return keys{}, fmt.Errorf("operator keys: %w", err)
	}
	if st.Mode().Perm()&0o077 != 0 {
		return keys{}, fmt.Errorf("operator keys %s can be read by others (mode %v): chmod 600 it", path, st.Mode().Perm())
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return keys{}, fmt.Errorf("operator keys: %w", err)
	}
	var k keys
	if err := json.Unmarshal(b, &k); err != nil || k.Format < 1 || (k.Format == keysFormat && len(k.Jobs) != sha256.Size) {
		return keys{}, fmt.Errorf("operator keys %s cannot be read: restore the file from a backup", path)
	}
	if k.Format > keysFormat {
		return keys{}, fmt.Errorf("operator keys %s have format %d, this program knows %d: use the newer program", path, k.Format, keysFormat)
	}
	return k, nil
}

func createKeys(path string, entropy io.Reader) (keys, error) {
	k := keys{Format: keysFormat, Jobs: make([]byte, sha256.Size)}
	for _, s := range []struct {
		prefix nkeys.PrefixByte
		seed   *string
	}{
		{nkeys.PrefixByteOperator, &k.Operator}, {nkeys.PrefixByteAccount, &k.System},
		{nkeys.PrefixByteAccount, &k.Main}, {nkeys.PrefixByteAccount, &k.People},
	} {
		kp, err := newKey(s.prefix, entropy)
		if err != nil {
			return keys{}, err
		}
		seed, err := kp.Seed()
		if err != nil {
			return keys{}, fmt.Errorf("making operator keys: %w", err)
		}
		*s.seed = string(seed)
	}
	if _, err := io.ReadFull(entropy, k.Jobs); err != nil {
		return keys{}, fmt.Errorf("making operator keys: %w", err)
	}
	b, err := json.MarshalIndent(k, "", "  ")
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o700)
	}
	if err == nil {
		err = writeFile(path, append(b, '\n'), 0o600)
	}
	if err != nil {
		return keys{}, fmt.Errorf("writing operator keys: %w", err)
	}
	return k, nil
}

// newKey reads the seed itself: key generators of the standard library ignore
// the reader they are given.
func newKey(prefix nkeys.PrefixByte, entropy io.Reader) (nkeys.KeyPair, error) {
	raw := make([]byte, 32)
	if _, err := io.ReadFull(entropy, raw); err != nil {
		return nil, fmt.Errorf("making a key: %w", err)
	}
	return nkeys.FromRawSeed(prefix, raw)
}

// derive returns the key that belongs to a name, the same in every process and
// after every restart. One derived key says nothing about another.
func (o *Operator) derive(prefix nkeys.PrefixByte, kind, name string) (nkeys.KeyPair, error) {
	mac := hmac.New(sha256.New, o.secret)
	mac.Write([]byte(kind + "\x00" + name))
	return nkeys.FromRawSeed(prefix, mac.Sum(nil))
}

func (o *Operator) jobKey(job events.JobID) (nkeys.KeyPair, string, error) {
	if err := events.CheckToken("job", string(job)); err != nil {
		return nil, "", err
	}
	kp, err := o.derive(nkeys.PrefixByteAccount, "account", string(job))
	if err != nil {
		return nil, "", err
	}
	pub, err := kp.PublicKey()
	return kp, pub, err
}

func (o *Operator) signSelf() error {
	pub, err := o.operator.PublicKey()
	if err != nil {
		return err
	}
	c := jwt.NewOperatorClaims(pub)
	c.Name = "spotferry"
	c.SystemAccount = o.sys
	o.operatorJWT, err = issue(c, o.operator, o.now())
	return err
}

// OperatorJWT is what a server outside this process must trust; its directory
// resolver must have been filled by SeedResolver.
func (o *Operator) OperatorJWT() string { return o.operatorJWT }

// SeedResolver writes the accounts that exist before any server runs into the
// directory of a server's account resolver.
func (o *Operator) SeedResolver(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("account directory: %w", err)
	}
	for _, c := range o.fixed() {
		path := accountFile(dir, c.Subject)
		old, err := os.ReadFile(path)
		if err == nil && o.same(c, string(old)) {
			continue
		}
		token, err := issue(c, o.operator, o.now())
		if err == nil {
			err = writeFile(path, []byte(token), 0o600)
		}
		if err != nil {
			return fmt.Errorf("account directory: writing %s: %w", c.Name, err)
		}
	}
	return nil
}

// same says whether token already says what c says, apart from when it was said.
func (o *Operator) same(c *jwt.AccountClaims, token string) bool {
	old, err := jwt.DecodeAccountClaims(token)
	if err != nil {
		return false
	}
	again, err := issue(c, o.operator, time.Unix(old.IssuedAt, 0))
	return err == nil && again == token
}
