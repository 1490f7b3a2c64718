// Package fleet runs the separate programs of an installation as processes, for
// tests that kill them.
//
// A test starts a fleet, works with it as people do (CLI), kills what it likes
// and starts it again, and stops it:
//
//	f, err := fleet.Start(ctx, fleet.Config{Dir: t.TempDir(), Spotferry: exe, Replicas: 2, Scale: 240, Divide: 10})
//	defer f.Close()
//	victim := f.Program("failover", 1)
//	victim.Kill()                      // SIGKILL; returns when it is gone
//	err = victim.Restart(ctx)          // the same command again; returns when it is ready
//	machines, err := f.Machines()      // hosts, agents and trainers, by pid and start
//	err = f.Stop(ctx)                  // SIGTERM to all, services first; an error names who did not exit with 0
//	left, err := f.Left()              // what still runs in or from the fleet's directory: machines do, on purpose
//
// Programs are started with files and ports that only they have, so that many
// fleets may run at once. Everything a program says goes to logs/NAME-REPLICA.log
// in the fleet's directory, one JSON object a line, and stays there across restarts.
//
// A Program is one slot, not one process: Restart gives it another pid. Pid and
// StartTicks together name a process for good, as a pid alone does not.
//
// What is a machine's is found in /proc and in the local seller's directory, never
// by asking the programs: a test that kills must not believe its victims. Linux only.
package fleet
