package natsbus

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/nats-io/jwt/v2"
)

const (
	accountsDir = "accounts" // below a bus's directory
	trustFormat = 1
)

// Trust is what a server has to be told of an operator: whom to believe, and the
// accounts that exist before anybody has pushed one. It holds no key.
type Trust struct {
	Format      int               `json:"format"`
	OperatorJWT string            `json:"operator"`
	System      string            `json:"system_account"` // public key
	Accounts    map[string]string `json:"accounts"`       // claims by public key
}

// Trust returns what a server in another process has to be told.
func (o *Operator) Trust() (Trust, error) {
	t := Trust{Format: trustFormat, OperatorJWT: o.operatorJWT, System: o.sys, Accounts: map[string]string{}}
	for _, c := range o.fixed() {
		token, err := issue(c, o.operator, o.now())
		if err != nil {
			return t, fmt.Errorf("signing account %s: %w", c.Name, err)
		}
		t.Accounts[c.Subject] = token
	}
	return t, nil
}

// ReadTrust reads a file that holds a Trust as JSON.
func ReadTrust(path string) (Trust, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return Trust{}, fmt.Errorf("reading whom the bus trusts: %w", err)
	}
	var t Trust
	if err := json.Unmarshal(b, &t); err != nil || t.Format < 1 {
		return t, fmt.Errorf("%s cannot be read: restore it from a backup", path)
	}
	if t.Format > trustFormat {
		return t, fmt.Errorf("%s has format %d, this program knows %d: use the newer program", path, t.Format, trustFormat)
	}
	return t, nil
}

// Seed writes the accounts that are not there yet into the directory of an
// account resolver. One that is there may have been changed since, by a push.
func (t Trust) Seed(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("account directory: %w", err)
	}
	for account, token := range t.Accounts {
		if c, err := jwt.DecodeAccountClaims(token); err != nil || c.Subject != account {
			return fmt.Errorf("account directory: the claims of account %.60q are not its own: make the trust file anew", account)
		}
		path := accountFile(dir, account)
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err := writeFile(path, []byte(token), 0o600); err != nil {
			return fmt.Errorf("account directory: writing %s: %w", account, err)
		}
	}
	return nil
}

func accountFile(dir, account string) string { return filepath.Join(dir, account+".jwt") }
