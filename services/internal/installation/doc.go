// Package installation is what all programs of one installation have in common:
// the terms that never change while jobs live, where the bus and the store are,
// and the keys.
//
// Init makes a directory of it, once:
//
//	installation.json   the terms, and where everything is; every program is given it
//	operator/           keys of the bus: the gateway's, and nobody else's
//	creds/              one credentials file for each program, with no more rights than it needs
//	people/             credentials of people
//	trust.json          whom our own bus program believes: no key is in it
//	bus/                its streams, and where it listens
//	nats-server.conf    the same for a stock nats-server; nats/ is its directory
//	store/              checkpoints and working directories
//	seller/             the local seller's machines
//	run/                what programs keep for themselves, such as how far the streams were
//
// Paths in installation.json are relative to its own directory, so that the
// whole can be moved, or mounted elsewhere.
package installation
