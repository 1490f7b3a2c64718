package agent

import (
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/nats-io/nkeys"

	"github.com/spotferry/spotferry/events"
)

// opener is a Control that can open what was sealed for this agent.
type opener interface {
	Open(events.Sealed) ([]byte, error)
}

// curve is the key that secrets are sealed to. It follows from the agent's own
// key, which signs it, so that both last as long.
func (b *Bus) curve() (nkeys.KeyPair, error) {
	seed, err := b.key.Seed()
	if err != nil {
		return nil, fmt.Errorf("agent bus: %w", err)
	}
	mac := hmac.New(sha256.New, seed)
	mac.Write([]byte("secrets"))
	if seed, err = nkeys.EncodeSeed(nkeys.PrefixByteCurve, mac.Sum(nil)); err != nil {
		return nil, fmt.Errorf("agent bus: %w", err)
	}
	return nkeys.FromCurveSeed(seed)
}

// sealTo is the public half and the signature that ties it to the agent's key.
func (b *Bus) sealTo() (public string, proof []byte, err error) {
	kp, err := b.curve()
	if err != nil {
		return "", nil, err
	}
	if public, err = kp.PublicKey(); err != nil {
		return "", nil, fmt.Errorf("agent bus: %w", err)
	}
	if proof, err = b.key.Sign([]byte(public)); err != nil {
		return "", nil, fmt.Errorf("agent bus: %w", err)
	}
	return public, proof, nil
}

// Open opens what was sealed for this agent.
func (b *Bus) Open(s events.Sealed) ([]byte, error) {
	kp, err := b.curve()
	if err != nil {
		return nil, err
	}
	return kp.Open(s.Box, s.From)
}

// unseal returns the job's secrets. Every one that the spec names is there, or
// the job is not begun: a trainer without its token fails hours later.
func unseal(cfg Config, r events.JoinReply) (map[string]events.Secret, error) {
	if len(r.Spec.Secrets) == 0 {
		return nil, nil
	}
	o, able := cfg.Control.(opener)
	if r.Secrets == nil || !able {
		return nil, fmt.Errorf("joining: the job's secrets did not come with the answer")
	}
	clear, err := o.Open(*r.Secrets)
	if err != nil {
		return nil, fmt.Errorf("joining: opening the job's secrets: %w", err)
	}
	got, err := events.UnpackSecrets(cfg.Bootstrap.Job, clear)
	if err != nil {
		return nil, fmt.Errorf("joining: %w", err)
	}
	for _, name := range r.Spec.Secrets {
		if _, ok := got[name]; !ok {
			return nil, fmt.Errorf("joining: secret %.100q did not come with the answer", name)
		}
	}
	return got, nil
}

// leastMasked is the shortest value that is masked: shorter ones stand in every
// other line by chance, and are no secrets that deserve the name.
const leastMasked = 6

// masking replaces the values of secrets, and the lines of those that have
// several, wherever they stand in a line of output.
func masking(secrets map[string]events.Secret) *strings.Replacer {
	var values []string
	for _, name := range slices.Sorted(maps.Keys(secrets)) {
		for _, v := range append(strings.Split(secrets[name].Reveal(), "\n"), secrets[name].Reveal()) {
			if v = strings.TrimSpace(v); len(v) >= leastMasked && !slices.Contains(values, v) {
				values = append(values, v)
			}
		}
	}
	// The longest first: one value may be the beginning of another.
	slices.SortStableFunc(values, func(a, b string) int { return len(b) - len(a) })
	pairs := make([]string, 0, 2*len(values))
	for _, v := range values {
		pairs = append(pairs, v, "****")
	}
	return strings.NewReplacer(pairs...)
}
