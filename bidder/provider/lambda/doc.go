// Package lambda sells what Lambda Cloud has: whole machines on demand, as a
// fallback where nothing else is to be had.
//
// A pool is an instance type in a region. That one is listed is no promise of
// capacity, and that a machine is active none of a GPU that works: the agent's probe
// says so. The API has no idempotency key and tells no times, so purchases go
// through package keyless: the name of an instance is its token, its tags carry the
// mark and the record of its purchase, and starts and ends are by our clock, on the dear side.
package lambda
