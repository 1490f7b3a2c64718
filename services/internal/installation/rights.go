package installation

import (
	"time"

	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/events/natsbus"
)

// What separate programs ask each other in MAIN.
const (
	SubjectBootstrap = "sf.gateway.bootstrap" // a machine's user data, of the gateway
	SubjectPlan      = "sf.bidder.plan"       // what a job would be bought with, of the bidder
	SubjectStore     = "sf.gateway.store"     // what is in the checkpoint store, of the gateway
)

const (
	subjectQuarantine = "sf.v1.quarantine.>"
	subjectOps        = "sf.v1.ops.>"
	subjectSellers    = "sf.provider."
)

// program is one that connects to the bus, and what it may do there.
type program struct {
	name   string
	rights natsbus.Rights
}

// programs are those of an installation. Who appends what is settled: the job's
// record belongs to failover, gateway and console, leases to the bidder, money to bidder, ledger and
// console, offers to the watcher.
func programs(sellers []string) []program {
	all := []program{
		{"watcher", natsbus.Rights{Publish: []string{events.FilterOffers, subjectQuarantine, subjectSellers + "*.offers", subjectSellers + "*.capabilities"}}},
		{"bidder", natsbus.Rights{
			Publish:   []string{events.FilterLeases, events.FilterMoney, subjectSellers + ">", SubjectBootstrap},
			Subscribe: []string{SubjectPlan, subjectSellers + "*.notices"},
		}},
		{"failover", natsbus.Rights{Publish: []string{events.FilterJobs}}},
		{"gateway", natsbus.Rights{
			Publish:   []string{events.FilterJobs, events.FilterSignals, events.SubjectLog + ">", "down.>"},
			Subscribe: []string{"agent.>", SubjectBootstrap, SubjectStore},
			Buckets:   []string{"sf_bootstrap", "sf_secrets"},
		}},
		{"ledger", natsbus.Rights{Publish: []string{events.FilterMoney}}},
		{"console", natsbus.Rights{
			Publish:   []string{events.FilterJobs, events.FilterMoney, subjectOps, subjectSellers + "*.list", subjectSellers + "*.metered", subjectSellers + "*.capabilities", SubjectPlan, SubjectStore},
			Subscribe: []string{"sf.api.>"},
			Buckets:   []string{"sf_secrets"}, // sealed: what it keeps there it cannot open
		}},
	}
	for _, s := range sellers {
		all = append(all, seller(s))
	}
	return all
}

// seller is the program that answers for one.
func seller(name string) program {
	return program{"provider-" + name, natsbus.Rights{
		Publish: []string{subjectSellers + name + ".notices"}, Subscribe: []string{subjectSellers + name + ".>", "$SRV.>"},
	}}
}

// person mints what an administrator's command line connects with.
func person(op *natsbus.Operator, name string, now time.Time) (natsbus.Credentials, error) {
	return op.Person(name, "admin", natsbus.Validity{From: now})
}
