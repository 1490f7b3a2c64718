// Package programs is what the separate programs do between their command line
// and their services: read the flags, connect, check the streams, open the admin port,
// run until they are asked to stop. Each program's own folder has only its main; the
// one binary has them all as hidden commands.
package programs
