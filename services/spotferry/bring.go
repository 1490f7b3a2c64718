package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/nats-io/nkeys"

	"github.com/spotferry/spotferry/events"
	"github.com/spotferry/spotferry/services/internal/console"
	"github.com/spotferry/spotferry/services/internal/jobfile"
	"github.com/spotferry/spotferry/services/internal/terminal"
)

// bring puts what a job needs from here into the store: its working directory,
// from here or from a repository, and its file mounts.
func (e *environment) bring(ctx context.Context, job *prepared) error {
	spec := &job.request.Spec
	switch {
	case job.repository != nil:
		a, err := e.fetch(ctx, *job.repository)
		if err != nil {
			return notBrought(ctx, "fetching the workdir", err)
		}
		spec.Workdir = &a
	case job.workdir != "":
		a, err := e.pack(ctx, job.workdir)
		if err != nil {
			return notBrought(ctx, "packing the workdir", err)
		}
		spec.Workdir = &a
	}
	spec.Mounts = nil
	for _, m := range job.mounts {
		if m.Source != "" { // machines fetch it by themselves
			spec.Mounts = append(spec.Mounts, events.Mount{Path: m.Path, Source: m.Source})
			continue
		}
		a, err := e.keep(ctx, func(w io.Writer) error { return m.Pack(ctx, w) })
		if err != nil {
			return notBrought(ctx, "packing "+m.Path, err)
		}
		spec.Mounts = append(spec.Mounts, events.Mount{Path: m.Path, Archive: a})
	}
	return nil
}

func notBrought(ctx context.Context, doing string, err error) error {
	if ctx.Err() != nil {
		return err
	}
	return usagef("nothing was submitted", "%s: %v", terminal.Safe(doing), err)
}

// fetch packs a repository as it is now, without its history. Every machine of
// the job gets the same files, wherever the branch has gone meanwhile.
func (e *environment) fetch(ctx context.Context, r jobfile.Repository) (a events.Archive, err error) {
	dir, err := os.MkdirTemp("", "spotferry-git-")
	if err != nil {
		return a, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	commit, err := e.checkOut(ctx, r, dir)
	if err != nil {
		return a, err
	}
	if _, err := os.Stat(filepath.Join(dir, ".gitmodules")); err == nil {
		e.term.Note("%s has submodules, which are not fetched: let setup fetch them", terminal.Safe(r.URL))
	}
	if a, err = e.pack(ctx, dir); err != nil {
		return a, err
	}
	a.Origin = r.URL + " at " + commit
	e.term.Note("the workdir is %s", terminal.Safe(a.Origin))
	return a, nil
}

// checkOut has git put one commit into an empty directory, and returns its id.
// Nothing of the repository is run, and git follows it to no other transport.
func (e *environment) checkOut(ctx context.Context, r jobfile.Repository, dir string) (string, error) {
	ref := r.Ref
	if ref == "" {
		ref = "HEAD"
	}
	for _, args := range [][]string{
		{"init", "-q"},
		{"fetch", "-q", "--depth", "1", "--no-tags", "--no-recurse-submodules", "--", r.URL, ref},
		{"-c", "advice.detachedHead=false", "checkout", "-q", "FETCH_HEAD"},
	} {
		if _, err := e.git(ctx, dir, args...); err != nil {
			return "", err
		}
	}
	return e.git(ctx, dir, "rev-parse", "HEAD")
}

func (e *environment) git(ctx context.Context, dir string, args ...string) (string, error) {
	safe := []string{
		"-c", "protocol.allow=never", "-c", "protocol.https.allow=always", "-c", "protocol.ssh.allow=always",
		"-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "core.symlinks=true", "-c", "http.followRedirects=initial",
	}
	cmd := exec.CommandContext(ctx, "git", append(safe, args...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_ALLOW_PROTOCOL=https:ssh", "GIT_DIR="+filepath.Join(dir, ".git"), "GIT_WORK_TREE="+dir)
	if !e.mayAsk() {
		cmd.Env = append(cmd.Env, "GIT_TERMINAL_PROMPT=0")
	}
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err == nil {
		return strings.TrimSpace(string(out)), nil
	}
	if errors.Is(err, exec.ErrNotFound) {
		return "", errors.New("git is not installed here")
	}
	return "", fmt.Errorf("git %s: %w: %s", verbOf(args), err, terminal.Safe(lastLines(said.String(), 3)))
}

func verbOf(args []string) string {
	if args[0] == "-c" {
		args = args[2:]
	}
	return args[0]
}

// lastLines is the end of what a program said, in one line.
func lastLines(s string, n int) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "; ")
}

// seal packs a job's secrets so that only the gateway can read them. It is the
// last that is done before a job is submitted, and the first they are put to use.
func (e *environment) seal(ctx context.Context, l *link, job *prepared) error {
	if len(job.secrets) == 0 {
		return nil
	}
	to, err := ask[console.SecretsKey](ctx, l, console.GetSecretsKey, nil)
	for range 10 { // a gateway that has just started says its key in a moment
		if !away(err) || pause(ctx, e.poll) != nil {
			break
		}
		to, err = ask[console.SecretsKey](ctx, l, console.GetSecretsKey, nil)
	}
	if err != nil {
		return err
	}
	if !nkeys.IsValidPublicCurveKey(to.Key) {
		return fmt.Errorf("the system gave no key that secrets can be sealed to; nothing was submitted")
	}
	clear, err := events.PackSecrets(job.request.ID, job.secrets)
	if err != nil {
		return err
	}
	own, err := nkeys.CreateCurveKeys()
	if err != nil {
		return fmt.Errorf("sealing the secrets: %w", err)
	}
	defer own.Wipe()
	from, err := own.PublicKey()
	if err != nil {
		return fmt.Errorf("sealing the secrets: %w", err)
	}
	box, err := own.Seal(clear, to.Key)
	if err != nil {
		return fmt.Errorf("sealing the secrets: %w", err)
	}
	job.request.Secrets = &events.Sealed{From: from, Box: box}
	return nil
}
