package main

import (
	"fmt"
	"strings"
)

const module = "github.com/spotferry/spotferry/"

// stage is one go test: packages whose tests are about as dear as each other.
type stage struct {
	packages []string
	run      string   // which tests, a regular expression; "": all of them
	args     []string // of the test binary
	patient  bool     // its tests start programs, and have to end to end them
}

// notLong is every test but the simulation's seeds, which come last.
const notLong = "^Test([^S]|S[^e]|Se[^e])"

// stages are every check there is, the cheap ones first. The unchanged tree and
// every patch meet the same ones in the same order.
var stages = []stage{
	{packages: []string{
		"./events", "./bidder/budget", "./bidder/ledger", "./bidder/market", "./bidder/provider", "./bidder/provider/remote",
		"./bidder/provider/providertest", "./failover", "./failover/gateway", "./checkpoint", "./checkpoint/chunk", "./checkpoint/framework", "./checkpoint/input", "./checkpoint/store/...",
	}},
	{packages: []string{"./failover/agent"}, patient: true},
	{packages: []string{"./bidder", "./events/natsbus", "./services/internal/simtest"}, run: notLong},
	{packages: []string{"./bidder/trace", "./bidder/provider/local"}, patient: true},
	{packages: []string{"./services/internal/simtest"}, run: "^TestSeeds$", args: []string{"-args", "-seeds=10", "-hours=2"}},
}

// rerun is the command that runs one test again, in a patched tree.
func (s stage) rerun(pkg, test string) string {
	parts := strings.Split(test, "/")
	for i, p := range parts {
		parts[i] = "^" + p + "$"
	}
	return strings.TrimSpace(fmt.Sprintf("go test ./%s -run '%s' %s", pkg, strings.Join(parts, "/"), strings.Join(s.args, " ")))
}

// promise is what a test, or every test of a package, stands for.
type promise struct {
	where string // package, or package.Test
	law   string // the invariant, if it is one's
	text  string
}

// promises are looked through for the longest that fits. A test need not be here
// to be a check: it is then known by the promise of its package.
var promises = []promise{
	{"bidder", "", "the bidder buys as decided, pays on and gives back"},
	{"bidder.TestACrashAtAnyPointLeavesNoOrphanAndAnExactLedger", "I-4", "a crash at any point leaves no orphan and an exact ledger"},
	{"bidder.TestAStormOfCrashesLeaksNothingAndOverspendsNothing", "I-3", "a storm of crashes overspends nothing"},
	{"bidder.TestCrashesAtAnyTwoPointsDoNotEither", "I-4", "crashes at any two points leave no orphan"},
	{"bidder.TestADeleteThatFailsForAnHourIsRepeatedAndPaidFor", "I-4", "an end is asked for until the seller confirms it"},
	{"bidder.TestAnAnswerThatWasLostIsReconciledToOneMachine", "I-4", "a lost answer is reconciled to one machine"},
	{"bidder.TestManyJobsManyServicesOneBudgetEach", "I-3", "many replicas keep every budget"},
	{"bidder.TestTheJobIsToldBeforeItsMoneyEndsAndNothingIsOverspent", "I-3", "a job is stopped before its money ends"},
	{"bidder.TestADecisionReplaysFromItsRecordAndIgnoresTheOrderOfOffers", "I-10", "a decision replays from its record"},
	{"bidder/budget", "I-3", "what is committed never exceeds the limit"},
	{"bidder/ledger", "I-9", "the ledger is the meter"},
	{"bidder/ledger.TestManyBooksNeverReserveAboveOneLimit", "I-3", "many books never reserve above one limit"},
	{"bidder/ledger.TestSettleEqualsASecondAuthorToTheMicroDollar", "I-9", "a settlement equals a second author's to the micro-dollar"},
	{"bidder/ledger.TestEveryLeaseIsSettledOnceWhateverCrashesAndRepeats", "I-5", "every lease is settled once, whatever crashes and repeats"},
	{"bidder/market", "I-14", "only prices that can be true reach decisions"},
	{"bidder/provider", "I-22", "repetition is bounded, and never blind"},
	{"bidder/provider.TestOnlyWhatMayBeRepeatedIs", "I-4", "only what may be repeated is"},
	{"bidder/provider/local", "", "the local seller keeps the seller's contract"},
	{"bidder/provider/providertest", "", "the fake seller keeps the seller's contract"},
	{"bidder/provider/remote", "", "a seller behind the bus keeps the seller's contract"},
	{"bidder/trace", "", "the market's model and clocks are what they say"},
	{"checkpoint", "I-6", "a committed checkpoint is whole and restores bit for bit"},
	{"checkpoint.TestNothingToRestore", "I-7", "what cannot be restored is an error, never a fresh start"},
	{"checkpoint.TestNothingKeptIsCollected", "I-6", "a writer relies on nothing that may be going"},
	{"checkpoint/chunk", "I-6", "a piece comes back as it was, sealed and compressed or not"},
	{"checkpoint/framework", "I-6", "only what a framework has finished writing is a checkpoint"},
	{"checkpoint/input", "I-6", "inputs arrive as they were sent"},
	{"events", "", "facts, ids and money survive being written down"},
	{"events.TestCostIsRoundedOnceHalfToEven", "I-9", "an amount is rounded once, half to even"},
	{"events/natsbus", "I-5", "what the bus has acknowledged is applied"},
	{"events/natsbus.TestAnEventWhoseHandlerFailsComesBackAndHoldsNobodyUp", "I-5", "an event whose handler fails comes back"},
	{"failover", "I-10", "a job's life follows from its events"},
	{"failover.TestAZombiesCommitIsRefusedAndVoid", "I-1", "a commit of an epoch that is over is refused, and void"},
	{"failover/agent", "I-15", "an agent keeps to its hold and to its orders"},
	{"failover/agent.TestAWrongWallClockChangesNothing", "I-15", "a wrong wall clock changes nothing"},
	{"failover/agent.TestNothingRestorableIsNeverAFreshStart", "I-7", "nothing restorable is never a fresh start"},
	{"failover/gateway", "I-1", "only the agent of the epoch in force is obeyed"},
	{"failover/gateway.TestNothingLiveIsEverDeleted", "I-6", "nothing that anybody may restore or rely on is ever deleted"},
	{"services/internal/console", "", "people are told what the records say"},
	{"services/internal/simtest", "", "the whole system under virtual time keeps its invariants"},
	{"services/internal/simtest.TestPromiseNothingIsAcknowledgedBeforeItsEffect", "I-5", "nothing is acknowledged before its effect"},
	{"services/internal/simtest.TestPromiseWhoDecidesIsGivenTheTime", "I-15", "who decides is given the time, and reads no clock"},
	{"services/internal/simtest.TestOutagesOfTheControlPlaneCostNoStep", "I-15", "an outage of the control plane costs no step"},
	{"services/internal/simtest.TestTheControlPlaneDiesEverywhereOnce", "I-19", "the control plane dies at every place there is, and all promises hold"},
}

// promiseOf returns the law and the text of a test's promise.
func promiseOf(pkg, test string) (law, text string) {
	best := ""
	full := pkg + "." + test
	for _, p := range promises {
		fits := p.where == pkg || full == p.where || strings.HasPrefix(full, p.where+"/")
		if fits && len(p.where) > len(best) {
			best, law, text = p.where, p.law, p.text
		}
	}
	if i := strings.LastIndex(test, "/"); i >= 0 && text != "" {
		text += ": " + strings.ReplaceAll(test[i+1:], "_", " ")
	}
	return law, text
}
