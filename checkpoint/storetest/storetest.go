// Package storetest is the conformance suite of checkpoint.Store: what every
// store promises and what the engine relies on, with nothing wrong and with the
// faults that real networks and media have below the contract.
//
// The result is a table: promises down, stores across. A cell is how many times
// the store was held to the promise, or "n/a" with the reason; a promise that
// nothing was held to fails. Each package prints its own column, and package
// storetest/table joins them.
package storetest

import (
	"testing"
	"time"

	"github.com/spotferry/spotferry/checkpoint"
	"github.com/spotferry/spotferry/checkpoint/storetest/faultproxy"
)

// Config is a store to be held against the contract.
type Config struct {
	// Column is the store's name in the table; "" means the test's.
	Column string
	// Open returns an empty store, closed with the test. Its lists are up to date.
	Open func(*testing.T) checkpoint.Store
	// Faulty is Open for a store that reaches its medium only through a proxy.
	// nil: there is none, and the promises under faults are n/a.
	Faulty func(*testing.T) (checkpoint.Store, *faultproxy.Proxy)
	// Full is Open for a store with room for one object of 600,000 bytes and not
	// for two. nil: the promise about it is n/a.
	Full func(*testing.T) checkpoint.Store
	// Without has, for every feature that this store cannot have, the reason.
	Without map[Feature]string
}

// Feature is something that some promises need and that some store cannot have.
type Feature string

// The features.
const (
	Lists         Feature = "lists"
	Deletes       Feature = "deletes"
	OneWinner     Feature = "one winner"       // of concurrent puts, as against one after the other
	Faults        Feature = "faults"           // Config.Faulty
	Filling       Feature = "filling"          // Config.Full
	LateLists     Feature = "late lists"       // lists are requests that the proxy can repeat an old answer to
	RetryAfter    Feature = "retry after"      // errors pass on how long a service asks to wait
	ChecksPuts    Feature = "checks puts"      // a body damaged on its way in is noticed
	Signing       Feature = "signing"          // checkpoint.Signer
	SignedCreates Feature = "signed creates"   // a signed put never overwrites
	SignedHeaders Feature = "signed headers"   // a put without its headers is refused
	SignedSizes   Feature = "signed sizes"     // a put of another size is refused
	SaysTaken     Feature = "says taken"       // a signed put of a name that is taken is 409 or 412, as against 403
	RangeEnds     Feature = "range ends"       // a signed range behind the end is 416
	ManyObjects   Feature = "many objects"     // more than a thousand
	Interrupted   Feature = "interrupted puts" // a put cut off leaves nothing
)

// Run holds the store that open returns against everything that needs no more
// than the store: an empty one each time, closed with the test.
func Run(t *testing.T, open func(*testing.T) checkpoint.Store) {
	t.Helper()
	Check(t, Config{Open: open})
}

// Check holds a store against the whole contract and prints its column.
func Check(t *testing.T, cfg Config) {
	t.Helper()
	cfg = cfg.withDefaults(t)
	cells := make([]*cell, len(promises))
	t.Run("promises", func(t *testing.T) {
		for i, p := range promises {
			cells[i] = &cell{}
			t.Run(p.name, func(t *testing.T) {
				t.Parallel()
				cells[i].hold(t, cfg, p)
			})
		}
	})
	report(t, cfg.Column, cells)
}

// promise is one line of the contract.
type promise struct {
	name  string
	needs []Feature
	hold  func(*check)
}

var promises = []promise{
	{"what is put is got, with its size, at every size around a buffer's or a part's", nil, roundTrips},
	{"an object is never overwritten, and its reader may stay unread", nil, neverOverwrites},
	{"of many who put one name at once exactly one wins, and it is whole", []Feature{OneWinner}, oneWinner},
	{"many names at once all arrive", nil, manyAtOnce},
	{"a put that does not get the bytes it was promised leaves nothing", nil, leavesNothing},
	{"a put begins where its reader stands, and takes no more than it was promised", nil, readersPlace},
	{"a put that failed can be repeated", nil, canBeRepeated},
	{"an ended context stops a put, also in the middle, and leaves nothing", nil, stopsPut},
	{"an ended context stops reading, also in the middle of a range", nil, stopsGet},
	{"an ended context stops every other call", nil, stopsRest},
	{"a range is exactly the bytes asked for, and never fewer", nil, ranges},
	{"many ranges of one object at once do not disturb each other", nil, manyRanges},
	{"two readers of one object do not disturb each other", nil, twoReaders},
	{"what is missing is ErrNotFound", nil, missing},
	{"what is deleted is gone, repeating it is no error, and the name is free", []Feature{Deletes}, deletes},
	{"a list has every name with the prefix and its size, sorted, and no other", []Feature{Lists}, lists},
	{"a list has no object that was deleted", []Feature{Lists, Deletes}, listsAfterDelete},
	{"a flat directory of more than a thousand is listed whole", []Feature{Lists, ManyObjects}, listsMany},
	{"a directory is not an object", nil, directories},
	{"every name that may be one is one, however odd", nil, oddNames},
	{"names that could leave the store or hide in it are refused", nil, badNames},
	{"what the store does not do is errors.ErrUnsupported", nil, unsupported},

	{"a full store says ErrNoSpace, leaves nothing, and goes on when there is room", []Feature{Filling, Deletes}, full},

	{"trouble of the service is an error, is final for nothing, and passes", []Feature{Faults}, trouble},
	{"how long the service asks to wait is told", []Feature{Faults, RetryAfter}, retryAfter},
	{"a refusal is ErrRefused with a remedy, and proves nothing about an object", []Feature{Faults}, refusals},
	{"a full service is ErrNoSpace", []Feature{Faults}, fullService},
	{"a put cut off at any byte leaves nothing", []Feature{Faults, Interrupted}, cutPut},
	{"a put whose answer was lost is there, whole, and is not put twice", []Feature{Faults}, lostAnswer},
	{"a get cut off at any byte is an error, and no proof of corruption", []Feature{Faults}, cutGet},
	{"a bit flipped on the way out is not hidden", []Feature{Faults}, flippedGet},
	{"a bit flipped on the way in is refused, and leaves nothing", []Feature{Faults, ChecksPuts}, flippedPut},
	{"a slow service is waited for, and left when the context ends", []Feature{Faults}, slow},
	{"a late list hides nothing from Get, Stat and Put", []Feature{Faults, Lists, LateLists}, lateList},

	{"a signed put creates, and never overwrites", []Feature{Signing, SignedCreates}, signedPut},
	{"a signed put of another size is refused", []Feature{Signing, SignedSizes}, signedSize},
	{"a signed put without its headers is refused", []Feature{Signing, SignedHeaders}, signedHeaders},
	{"a signed get gives the object and its ranges", []Feature{Signing}, signedGet},
	{"a signed head gives the size, and 404 for nothing", []Feature{Signing}, signedHead},
	{"a signature allows nothing else: not another verb, not another name", []Feature{Signing}, signedElse},
	{"a signature ends", []Feature{Signing}, signedEnd},
	{"what cannot be signed is refused", []Feature{Signing}, signedOdd},
}

// patience bounds everything that is expected to succeed in one promise.
const patience = 2 * time.Minute

func (cfg Config) withDefaults(t *testing.T) Config {
	without := map[Feature]string{}
	for f, why := range cfg.Without {
		if why == "" {
			t.Fatalf("storetest: no reason why the store is without %s", f)
		}
		without[f] = why
	}
	if cfg.Column == "" {
		cfg.Column = t.Name()
	}
	if cfg.Faulty == nil {
		without[Faults] = orElse(without[Faults], "nothing between the store and its medium to put faults into")
	}
	if cfg.Full == nil {
		without[Filling] = orElse(without[Filling], "its medium cannot be filled here")
	}
	cfg.Without = without
	return cfg
}

func orElse(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// Content returns n bytes that differ from place to place.
func Content(n int) []byte {
	b := make([]byte, n)
	x := uint32(n) + 1
	for i := range b {
		x = x*1664525 + 1013904223 // Numerical Recipes' generator: any would do
		b[i] = byte(x >> 24)
	}
	return b
}
