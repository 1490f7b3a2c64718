package natsbus

import (
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"
)

// Credentials are a user's token and the private half of its key.
type Credentials struct {
	JWT  string
	Seed string
}

// ParseCredentials reads the text of a credentials file.
func ParseCredentials(text string) (Credentials, error) {
	token, err := jwt.ParseDecoratedJWT([]byte(text))
	if err != nil {
		return Credentials{}, errors.New("credentials: no user token in the text")
	}
	kp, err := jwt.ParseDecoratedUserNKey([]byte(text))
	if err != nil {
		return Credentials{}, errors.New("credentials: no user key in the text")
	}
	seed, err := kp.Seed()
	if err != nil {
		return Credentials{}, errors.New("credentials: no user key in the text")
	}
	return Credentials{JWT: token, Seed: string(seed)}, nil
}

// Text is the content of a credentials file, secret.
func (c Credentials) Text() (string, error) {
	b, err := jwt.FormatUserConfig(c.JWT, []byte(c.Seed))
	return string(b), err
}

// Person returns in which role and as whom the credential's owner may ask the API.
func (c Credentials) Person() (role, name string, err error) {
	claims, err := jwt.DecodeUserClaims(c.JWT)
	if err != nil {
		return "", "", fmt.Errorf("credentials: the token is not a user's: %w", err)
	}
	for _, subject := range claims.Pub.Allow {
		within, ok := strings.CutPrefix(subject, apiRoot)
		if f := strings.Split(strings.TrimSuffix(within, apiRest), "."); ok && len(f) == 2 && strings.HasSuffix(within, apiRest) {
			return f[0], f[1], nil
		}
	}
	return "", "", fmt.Errorf("credentials: those of %.64q are no person's, or of an older version: make new ones", claims.Name)
}

// String keeps the secret out of logs.
func (c Credentials) String() string { return "credentials" }

// GoString keeps the secret out of logs.
func (c Credentials) GoString() string { return "credentials" }

func credentials(token string, kp nkeys.KeyPair) (string, error) {
	seed, err := kp.Seed()
	if err != nil {
		return "", err
	}
	return Credentials{JWT: token, Seed: string(seed)}.Text()
}

func (c Credentials) zero() bool { return c.JWT == "" && c.Seed == "" }

// user returns the public key that the token is for.
func (c Credentials) user() (string, error) {
	claims, err := jwt.DecodeUserClaims(c.JWT)
	if err != nil {
		return "", fmt.Errorf("credentials: the token is not a user's: %w", err)
	}
	return claims.Subject, nil
}
