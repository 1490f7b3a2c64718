package events

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Secret is a value that is shown nowhere: it prints as asterisks however it is
// printed, and it cannot be marshalled. Reveal and PackSecrets are the only ways
// to its text, so that whoever looks for leaks has two words to look for.
type Secret struct {
	// A pointer: printed as a field of something else, even an unexported one, it is an address.
	text *string
}

const masked = "****"

// NewSecret hides text.
func NewSecret(text string) Secret { return Secret{&text} }

// Reveal is the text.
func (s Secret) Reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}

// String is what a secret prints as.
func (Secret) String() string { return masked }

// Format prints asterisks, whatever the verb.
func (Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, masked) }

// MarshalText refuses: a secret written down as asterisks would arrive as asterisks.
func (Secret) MarshalText() ([]byte, error) {
	return nil, errors.New("a secret is not written down: seal it (PackSecrets)")
}

// Sealed is a message that only the holder of one key can read. It travels and
// rests in the open.
type Sealed struct {
	From string `json:"from"` // public curve key of the sender
	Box  []byte `json:"box"`
}

// secretsBody is what is sealed. It names its job, so that one job's secrets
// cannot be handed in as those of another.
type secretsBody struct {
	Job    JobID             `json:"job"`
	Values map[string]string `json:"values"`
}

// PackSecrets is the clear text of a job's secrets, to be sealed at once.
func PackSecrets(job JobID, secrets map[string]Secret) ([]byte, error) {
	b := secretsBody{job, map[string]string{}}
	for name, s := range secrets {
		b.Values[name] = s.Reveal()
	}
	return json.Marshal(b)
}

// UnpackSecrets reads what PackSecrets wrote for the job. No error quotes any of it.
func UnpackSecrets(job JobID, clear []byte) (map[string]Secret, error) {
	var b secretsBody
	if err := json.Unmarshal(clear, &b); err != nil {
		return nil, errors.New("these are no secrets")
	}
	if b.Job != job {
		return nil, fmt.Errorf("these are not the secrets of job %s", job)
	}
	out := map[string]Secret{}
	for name, v := range b.Values {
		out[name] = NewSecret(v)
	}
	return out, nil
}
