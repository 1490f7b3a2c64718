package events

import (
	"fmt"
	"strconv"
	"strings"
)

// Ids are subject tokens: lower-case letters, digits, '-' and '_', at most 64 bytes.
type (
	// OrgID names the organisation that pays.
	OrgID string
	// JobID is a lower-case ULID minted by whoever submits, so that submitting twice is submitting once.
	JobID string
	// LeaseID is derived: <job>-<epoch>-<n>.
	LeaseID string
	// InstanceID is the seller's own name for a machine. It is not a subject token.
	InstanceID string
	// EventID is derived: <aggregate>-<sequence>.
	EventID string
)

// Lease returns the id of the n-th lease tried for epoch of this job; both count from 1.
func (j JobID) Lease(epoch, n int) LeaseID {
	return LeaseID(fmt.Sprintf("%s-%d-%d", j, epoch, n))
}

// Parts returns the job, epoch and number that a lease id is made of.
func (l LeaseID) Parts() (job JobID, epoch, n int, err error) {
	f := strings.Split(string(l), "-")
	if len(f) == 3 {
		epoch, err = strconv.Atoi(f[1])
		if err == nil {
			n, err = strconv.Atoi(f[2])
		}
		if job := JobID(f[0]); err == nil && epoch > 0 && n > 0 && job.Lease(epoch, n) == l {
			return job, epoch, n, nil
		}
	}
	return "", 0, 0, fmt.Errorf("lease id %q is not <job>-<epoch>-<n>", l)
}

// Job returns the job that a well-formed lease id belongs to, or "".
func (l LeaseID) Job() JobID {
	job, _, _, _ := l.Parts()
	return job
}

// CheckToken says why s cannot stand in a subject, or nil. field names it in the error.
func CheckToken(field, s string) error {
	if s == "" || len(s) > 64 {
		return fmt.Errorf("%s %q: must have 1 to 64 characters", field, s)
	}
	for _, r := range s {
		if (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' && r != '_' {
			return fmt.Errorf("%s %q: only a-z, 0-9, '-' and '_' may stand in a subject", field, s)
		}
	}
	return nil
}

// Token turns any text into a subject token: lower case, everything else '_', cut at 64 bytes.
// Different texts can give the same token; it is for names that are already distinct without it.
func Token(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		case (r >= 'a' && r <= 'z') || (r >= '0' && r <= '9') || r == '-' || r == '_':
			return r
		}
		return '_'
	}, s)
	if s == "" {
		return "_"
	}
	return s[:min(len(s), 64)]
}
