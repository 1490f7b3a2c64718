// Package gcpfake speaks the REST protocols of Compute Engine and Cloud Billing
// in front of any seller: what is inserted there is bought of the seller behind, what
// that one refuses is refused in Google's words, and what it takes back is preempted.
//
// It imitates what makes Google different. An insertion is answered with an operation
// before it is known whether there is a machine, and the operation fails later, with a
// 200. Waiting for one returns early and undone when it likes. A machine that was stopped
// and one that was preempted look alike; the zone's operations tell them apart, and are
// all that is left of what was deleted. There is no price of a machine, only of its
// parts, among prices that are none of anybody's business. Zones fail to answer, and
// the list says so only to those who look.
//
// Whoever stands behind should sell as Google does: machine types of Google's, at one
// price for all zones of a region, which divides evenly among a machine's GPUs and
// changes seldom, on terms of a second, a minute at least, and a first minute that is
// free when the machine is taken back. Of prices that differ within a region the first
// zone's is told.
//
// It differs from Google in one thing: an insertion that failed is forgotten with
// its request id, so that a repetition is tried anew.
//
// It knows nothing of who calls it, and links none of Google's libraries.
package gcpfake
