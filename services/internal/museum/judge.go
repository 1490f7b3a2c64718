package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"
)

// judge runs the checks on the copy.
type judge struct {
	tree       *tree
	all, fresh bool
}

// unchanged judges the copy as it is: every check, to its end.
func (j judge) unchanged(ctx context.Context) verdict {
	v := j.weigh(ctx, "the unchanged tree")
	switch v.Verdict {
	case missed:
		v.Verdict = passes
	case caught:
		v.Verdict = fails
	}
	return v
}

// patch judges the copy with one patch applied, and takes the patch back.
func (j judge) patch(ctx context.Context, file string) verdict {
	name := strings.TrimSuffix(filepath.Base(file), ".patch")
	undo, why, err := j.tree.apply(ctx, file)
	if undo != nil {
		defer func() { _ = undo() }()
	}
	if err != nil {
		why = err.Error()
	}
	if why != "" {
		return verdict{Patch: name, Verdict: notApplied, Detail: why}
	}
	return j.weigh(ctx, name)
}

// weigh compiles the copy and runs the stages until one finds something.
func (j judge) weigh(ctx context.Context, name string) verdict {
	began := time.Now()
	v := verdict{Patch: name, Verdict: missed}
	done := func(what, detail string) verdict {
		v.Verdict, v.Detail, v.TookMS = what, detail, time.Since(began).Milliseconds()
		return v
	}
	build := exec.CommandContext(ctx, "go", "list", "-export", "-f", "{{with .Error}}{{.}}{{end}}", "./...") // compiles, and links nothing
	build.Dir = j.tree.dir
	if out, err := build.CombinedOutput(); err != nil {
		return done(notBuilt, string(out))
	}
	var detail strings.Builder
	for _, s := range stages {
		found := j.stage(ctx, s)
		v.Checks += found.ran
		switch {
		case ctx.Err() != nil:
			return done(missed, "interrupted: "+ctx.Err().Error())
		case found.broken != "":
			return done(notBuilt, found.broken)
		}
		v.By = append(v.By, found.failed...)
		detail.WriteString(found.text)
		if len(v.By) > 0 && !j.all {
			v.By = v.By[:1] // a patient stage has gone on
			break
		}
	}
	if len(v.By) > 0 {
		return done(caught, detail.String())
	}
	return done(missed, fmt.Sprintf("none of %d checks fails", v.Checks))
}

// found is what one stage came to.
type found struct {
	ran    int
	failed []finding
	text   string // what the failed tests said
	broken string // why tests do not compile
}

// line is one line of go test -json.
type line struct {
	Action, Package, Test, Output, ImportPath string
}

// stage runs one go test and reads it as it comes; without -all the first failure ends it.
func (j judge) stage(ctx context.Context, s stage) found {
	args := []string{"test", "-json", "-vet=off", "-timeout=20m"}
	if j.fresh {
		args = append(args, "-count=1")
	}
	if s.run != "" {
		args = append(args, "-run="+s.run)
	}
	args = append(append(args, s.packages...), s.args...)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Env = j.tree.dir, append(os.Environ(), "TMPDIR="+j.tree.junk)
	// go test and the tests are one process group: its end is the end of all.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	if err := j.tree.sweep(); err != nil {
		return found{broken: err.Error()}
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return found{broken: err.Error()}
	}
	f := reading{stage: s, said: map[string]*strings.Builder{}}
	in := bufio.NewReaderSize(out, 1<<20)
	for {
		text, err := in.ReadBytes('\n')
		var l line
		if json.Unmarshal(text, &l) == nil {
			f.take(l)
		}
		if err != nil || (len(f.failed) > 0 && !j.all && !s.patient) {
			break
		}
	}
	cancel()
	err = cmd.Wait()
	if len(f.failed) == 0 && f.broken == "" && err != nil && f.complete == 0 {
		f.broken = stderr.String()
	}
	return f.found
}

// reading is a stage being read.
type reading struct {
	found
	stage    stage
	said     map[string]*strings.Builder
	complete int // packages with a result
}

func (f *reading) take(l line) {
	key := l.Package + " " + l.Test
	switch l.Action {
	case "output":
		b := f.said[key]
		if b == nil {
			b = &strings.Builder{}
			f.said[key] = b
		}
		if b.Len() < 16<<10 {
			b.WriteString(l.Output)
		}
	case "build-output":
		f.broken += l.Output
	case "pass", "skip":
		if l.Test == "" {
			f.complete++
		} else if !strings.Contains(l.Test, "/") {
			f.ran++
		}
		delete(f.said, key)
	case "fail":
		f.fail(l, key)
	}
}

// fail notes a failed test, the innermost that says something. A package that fails without a failed
// test has died: the test that was running is named.
func (f *reading) fail(l line, key string) {
	text := ""
	if b := f.said[key]; b != nil {
		text = b.String()
	}
	pkg := strings.TrimPrefix(l.Package, module)
	if l.Test == "" {
		f.complete++
		if f.broken != "" || strings.Contains(text, "[build failed]") {
			return
		}
		for _, x := range f.failed {
			if strings.HasPrefix(x.Test, pkg+".") {
				return
			}
		}
		f.add(pkg, running(text), text)
		return
	}
	if !strings.Contains(l.Test, "/") {
		f.ran++
	}
	for _, x := range f.failed { // the test around one that was noted
		if strings.HasPrefix(x.Test, pkg+"."+l.Test+"/") {
			return
		}
	}
	f.add(pkg, l.Test, text)
}

func (f *reading) add(pkg, test, text string) {
	law, promise := promiseOf(pkg, test)
	first := said(text)
	if m := lawIn.FindString(first); m != "" {
		law = m
	}
	f.failed = append(f.failed, finding{Check: promise, Law: law, Test: pkg + "." + test, Said: first, Rerun: f.stage.rerun(pkg, test)})
	if len(text) > 6<<10 {
		text = text[:6<<10] + "\n...\n"
	}
	f.text += text
}

var (
	lawIn  = regexp.MustCompile(`\bI-\d+\b`)
	ran    = regexp.MustCompile(`(?m)^\s*(Test\w+(?:/\S+)?) \(\d`)
	source = regexp.MustCompile(`^\s*\w+_test\.go:\d+: `)
)

// running is the test that a panic or a time-out names as running.
func running(text string) string {
	if m := ran.FindStringSubmatch(text); m != nil {
		return m[1]
	}
	return "(the package)"
}

// said is the line of a test's output that says most: the first with an invariant's
// name, else the first of its own.
func said(text string) string {
	var first string
	for l := range strings.Lines(text) {
		l = strings.TrimSpace(l)
		own := source.MatchString(l) || strings.HasPrefix(l, "panic:")
		if lawIn.MatchString(l) {
			first = l
			break
		}
		if own && first == "" {
			first = l
		}
	}
	return fmt.Sprintf("%.300s", source.ReplaceAllString(first, ""))
}
