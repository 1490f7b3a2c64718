// Package aws sells EC2 instances with GPUs, spot and on demand, through the
// seller's own client.
//
// Everything that is remembered of a machine stands in its tags and in what EC2
// tells of it, so that a process that has just started lists the same machines as
// the one before it. A launch is a function of its request and the configuration
// alone: no price, no time and nothing random is in it, since EC2 gives the
// machine of a client token back only to a call that is the same in every field.
// What a spot machine costs is therefore read from the price history, which does
// not change, from the launch to the end.
//
// A pool's zone is the zone's id (use1-az4), which means one place in every
// account; the name (us-east-1a) does not.
//
// The client makes one attempt a call. Nothing here retries, limits or breaks.
package aws
