package console

import (
	"fmt"
	"slices"
	"strings"
)

// Role is what somebody may ask for. It stands in the credential, and with it in
// the subject of every request.
type Role string

// The roles; each may do what those before it may.
const (
	Viewer   Role = "viewer"   // reads
	Operator Role = "operator" // runs jobs, and says where and whether anything is bought
	Admin    Role = "admin"    // moves budgets, ends machines, lets others in
)

// Roles lists them, the least first.
func Roles() []Role { return []Role{Viewer, Operator, Admin} }

// May says whether whoever has this role may do what least asks for. A role that is not known may nothing.
func (r Role) May(least Role) bool {
	have := slices.Index(Roles(), r)
	return have >= 0 && have >= slices.Index(Roles(), least)
}

// verbs is the one table of what can be asked, the least role that may, and
// whether it changes anything. Unfreeze has a rule of its own besides: an operator
// may end a freeze of their own, an admin any.
func verbs() map[Verb]right {
	return map[Verb]right{
		GetClock: {Viewer, false}, GetJobs: {Viewer, false}, GetJob: {Viewer, false}, GetEvents: {Viewer, false},
		GetFailovers: {Viewer, false}, GetCheckpoints: {Viewer, false}, GetBill: {Viewer, false}, GetOffers: {Viewer, false},
		GetInstances: {Viewer, false}, GetLogs: {Viewer, false}, GetPlan: {Viewer, false}, GetHealth: {Viewer, false},
		GetOps: {Viewer, false}, GetSellers: {Viewer, false}, GetPools: {Viewer, false}, GetBudget: {Viewer, false},
		GetReapable: {Viewer, false}, GetDrill: {Viewer, false}, GetSecretsKey: {Operator, false},
		GetFailoverList: {Viewer, false}, GetFailover: {Viewer, false}, GetFailoverStats: {Viewer, false},
		GetFailoverEvents: {Viewer, false}, GetDecision: {Viewer, false},
		GetCheckpoint: {Viewer, false}, GetCheckpointUse: {Viewer, false}, GetCollectable: {Viewer, false}, GetCheckpointAccess: {Operator, false},

		DoSubmit: {Operator, true}, DoCancel: {Operator, true}, DoPause: {Operator, true}, DoResume: {Operator, true},
		DoMigrate: {Operator, true}, DoDrill: {Operator, true}, DoHold: {Operator, true}, DoRelease: {Operator, true},
		DoFreeze: {Operator, true}, DoUnfreeze: {Operator, true},
		DoPin: {Operator, true}, DoUnpin: {Operator, true}, DoDrop: {Operator, true}, DoCollect: {Operator, true},
		DoBudget: {Admin, true}, DoReap: {Admin, true},
	}
}

// right is what it takes to ask for something.
type right struct {
	least   Role
	changes bool
}

// permit says why somebody may not ask for a verb here, or nil.
func (s *Server) permit(who asker, v Verb) error {
	r, known := verbs()[v]
	switch {
	case !known:
		return &Problem{Code: "invalid", Message: fmt.Sprintf("request %.40q is not known", v), Remedy: "the command line and the system may be of different versions"}
	case !who.role.May(r.least):
		return forbidden(who, string(v), r.least)
	case r.changes && s.cfg.ReadOnly:
		return readOnly
	}
	return nil
}

func forbidden(who asker, what string, need Role) *Problem {
	return &Problem{
		Code:    "forbidden",
		Message: fmt.Sprintf("%s needs the role %s; %s has %s", what, need, who.name, who.role),
		Remedy:  fmt.Sprintf("ask somebody with that role, or for a credential: 'spotferry creds user %s --role %s'", who.name, need),
	}
}

// because is the reason that somebody gives for what they do, or a problem that asks for it.
func because(v Verb, reason string) (string, error) {
	reason = strings.TrimSpace(reason)
	switch {
	case reason == "":
		return "", &Problem{Code: "invalid", Message: fmt.Sprintf("%s needs a reason", v), Remedy: "say why with --reason: it is kept in the record"}
	case len(reason) > longestReason:
		return "", &Problem{Code: "invalid", Message: fmt.Sprintf("the reason has %d bytes, at most %d are kept", len(reason), longestReason), Remedy: "give a shorter one, with a link to the rest"}
	}
	return reason, nil
}

const longestReason = 1000
