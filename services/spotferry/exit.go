package main

import (
	"context"
	"errors"
	"io/fs"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/services/internal/console"
	"github.com/spotferry/spotferry/services/internal/jobfile"
	"github.com/spotferry/spotferry/services/internal/terminal"
)

// exit is what the process ends with.
type exit int

// The exit codes; exitCodes says what they mean.
const (
	exitOK          exit = 0
	exitInternal    exit = 1
	exitUsage       exit = 2
	exitAuth        exit = 3
	exitUnreachable exit = 4
	exitImpossible  exit = 5
	exitConflict    exit = 6
	exitFailed      exit = 100
	exitUnfinished  exit = 101
	exitNotFound    exit = 102
	exitCancelled   exit = 103
	exitBudget      exit = 104
	exitDeadline    exit = 105
	exitInterrupted exit = 130
)

type exitCode struct {
	code    exit
	name    string
	meaning string
}

// exitCodes is the one table of them.
func exitCodes() []exitCode {
	return []exitCode{
		{exitOK, "ok", "done, or the job succeeded"},
		{exitInternal, "internal", "something went wrong inside"},
		{exitUsage, "usage", "the command line or the job file is not valid"},
		{exitAuth, "auth", "not allowed"},
		{exitUnreachable, "unreachable", "the system does not answer"},
		{exitImpossible, "impossible", "no offer fits, or budget or deadline cannot be met even at best"},
		{exitConflict, "conflict", "something else happened first"},
		{exitFailed, "failed", "the job failed"},
		{exitUnfinished, "not-finished", "the job has not ended"},
		{exitNotFound, "not-found", "there is no such job, checkpoint or failover"},
		{exitCancelled, "cancelled", "the job was cancelled, or you answered no"},
		{exitBudget, "out-of-budget", "the job was stopped by its budget"},
		{exitDeadline, "missed-deadline", "the job was stopped by its deadline"},
		{exitInterrupted, "interrupted", "you stopped watching; the job goes on"},
	}
}

func (x exit) name() string {
	for _, c := range exitCodes() {
		if c.code == x {
			return c.name
		}
	}
	return "internal"
}

// outcomeExit is the exit code of a job that is followed to its end.
func outcomeExit(o events.Outcome) exit {
	switch o {
	case events.Succeeded:
		return exitOK
	case events.Failed:
		return exitFailed
	case events.Cancelled:
		return exitCancelled
	case events.OutOfBudget:
		return exitBudget
	case events.MissedDeadline:
		return exitDeadline
	}
	return exitUnfinished
}

// problemExit is the exit code of a request that the console did not serve.
func problemExit(code string) exit {
	switch code {
	case "invalid":
		return exitUsage
	case "forbidden", "denied", "auth":
		return exitAuth
	case "unavailable":
		return exitUnreachable
	case "impossible":
		return exitImpossible
	case "conflict":
		return exitConflict
	case "not-found":
		return exitNotFound
	}
	return exitInternal
}

// failureOf says what err means for whoever typed the command.
func failureOf(ctx context.Context, err error) *failure {
	f := &failure{}
	var problem *console.Problem
	var file *jobfile.Error
	switch {
	case errors.As(err, &f):
		return f
	case errors.As(err, &problem):
		doing := strings.TrimSuffix(err.Error(), problem.Error())
		return &failure{exit: problemExit(problem.Code), What: terminal.Safe(doing + problem.Message), Remedy: terminal.Safe(problem.Remedy)}
	case errors.As(err, &file):
		return &failure{exit: exitUsage, Problems: file.Problems}
	case errors.Is(err, context.Canceled) && ctx.Err() != nil:
		return &failure{exit: exitInterrupted, What: "interrupted"}
	case errors.Is(err, nats.ErrAuthorization), errors.Is(err, nats.ErrAuthExpired), errors.Is(err, nats.ErrAuthRevoked),
		errors.Is(err, nats.ErrPermissionViolation), errors.Is(err, fs.ErrPermission):
		return &failure{exit: exitAuth, What: err.Error()}
	case errors.Is(err, console.ErrUnreachable), errors.Is(err, context.DeadlineExceeded):
		return &failure{exit: exitUnreachable, What: err.Error(), Remedy: "'spotferry doctor' says what is wrong"}
	}
	return &failure{exit: exitInternal, What: err.Error()}
}
