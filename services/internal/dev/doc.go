// Package dev is Spotferry on one machine: every service in one process, an
// embedded bus, the local seller, and one state directory from which it starts
// again where it was, however it ended.
//
// The state directory:
//
//	state.json      format, clock, market: what must not change while jobs live
//	lock            held by the running system
//	bus/            the streams        operator/   keys of the bus
//	highwater.json  how far the streams had come, kept apart from them
//	store/          checkpoints and working directories
//	seller/         the local seller's machines
//	bin/            the program that machines run
//	user.creds      the command line's credential
//	dev.log         what the services say
package dev
