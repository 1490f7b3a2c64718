// Package ops is what operations decided for every job of an organisation:
// which sellers and pools nothing is bought from, and whether anything is bought at all.
//
// The decisions are one aggregate in the same stream as the leases, so that both
// have one order. That order is the law: an intent to buy that stands after a
// freeze, or after a hold of its pool, is void. Whoever finds it can tell, all
// find the same, and nobody makes its paid call. Nothing needs to be locked, and
// a freeze needs to reach nobody: once its event stands, what comes after it is void.
//
// Machines that are there already are none of its business: they are paid on and
// kept, and given back when their job wants it.
package ops
