// Package ledger says what was spent. It folds the money events of an
// organisation into accounts, balanced postings and a statement per job, and
// its Service turns the confirmed end of a machine into the charge for it.
//
// Laws. The money of an organisation is one aggregate, and the fold is the only
// truth about it: accounts rebuilt from the log equal the running ones. Every
// lease is settled or released once, whatever is delivered how often. A charge
// comes from confirmed times and the seller's terms, never from a request, a
// seller's meter or a timer. Entries are only added; a correction is a new one.
//
// The bidder checks budgets and reserves through the same Book, so that one
// fold serves budget and ledger. The package imports no budget, market or
// seller code: whoever compares it with a seller's meter compares two authors.
package ledger
