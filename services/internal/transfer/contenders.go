package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// bench is one benchmark: where its files are and what it has to compare with.
type bench struct {
	dir      string // everything is below it
	self     string // this program, to be run as a client
	s3       *gateway
	compress string              // of the engine
	have     map[string]bool     // programs that are here
	sessions map[string]*session // processes that stay, by contender
	only     []string            // contenders; empty: all
	want     []byte              // sums of the data set
}

func (b *bench) path(parts ...string) string {
	return filepath.Join(append([]string{b.dir}, parts...)...)
}

// contender moves the data set with one tool to one kind of target. Every act is
// one child process, or its puts are those of one that stays; nil is an act that
// the tool does not have.
type contender struct {
	name string
	need []string // programs
	// prepare makes the empty target, untimed.
	prepare func(context.Context) error
	put     []string // also of the changed set
	env     []string
	local   bool     // the target is a file system that has to be flushed
	get     []string // into dir restored/<name>
	again   bool     // an unchanged set is put once more
	stays   bool     // put is started once, and puts for each line it reads
}

// contenders returns who is compared, ours first of each group.
func (b *bench) contenders() []contender {
	src := b.path("src")
	restored := func(name string) string { return b.path("restored", name) }
	ours := func(name, store string, local bool) contender {
		state := b.path("state", name)
		return contender{name: name, local: local, again: true, stays: true,
			prepare: func(context.Context) error { return os.MkdirAll(state, 0o755) },
			env:     b.s3.env(),
			put:     []string{b.self, "put", "-store", store, "-src", src, "-state", state, "-compress", b.compress},
			get:     []string{b.self, "get", "-store", store, "-dst", restored(name), "-state", state}}
	}
	restic := []string{"restic", "-q", "--repo", b.path("target", "restic")}
	password := []string{"RESTIC_PASSWORD=x", "RESTIC_CACHE_DIR=" + b.path("state", "restic")}
	all := []contender{
		ours("spotferry", "dir:"+b.path("target", "spotferry"), true),
		{name: "cp", local: true, put: []string{"cp", "-rT", src, b.path("target", "cp")},
			get: []string{"sh", "-c", fmt.Sprintf("cp -rT %s %s && b3sum --num-threads 2 %s/* >/dev/null", b.path("target", "cp"), restored("cp"), restored("cp"))}, need: []string{"b3sum"}},
		{name: "restic", need: []string{"restic"}, local: true, env: password,
			prepare: func(ctx context.Context) error {
				_, err := timed(ctx, password, "", append(restic, "init")...)
				return err
			},
			put: append(restic[:4:4], "backup", src), again: true,
			get: append(restic[:4:4], "restore", "latest", "--target", restored("restic"))},
		{name: "rclone", need: []string{"rclone"}, local: true,
			put: []string{"rclone", "sync", "--checksum", src, b.path("target", "rclone")},
			get: []string{"rclone", "copy", b.path("target", "rclone"), restored("rclone")}},
	}
	if b.s3 == nil {
		return all
	}
	bucket := func(name string) func(context.Context) error {
		return func(context.Context) error { return os.MkdirAll(b.path("s3", name), 0o755) }
	}
	mine := ours("spotferry-s3", "s3:spotferry", false)
	dir := mine.prepare
	mine.prepare = func(ctx context.Context) error {
		if err := bucket("spotferry")(ctx); err != nil {
			return err
		}
		return dir(ctx)
	}
	return append(all, mine,
		contender{name: "s5cmd-s3", need: []string{"s5cmd", "b3sum"}, prepare: bucket("s5cmd"), env: b.s3.env(),
			put: []string{"s5cmd", "--endpoint-url", b.s3.url, "cp", src + "/*", "s3://s5cmd/set/"},
			get: []string{"sh", "-c", fmt.Sprintf("mkdir -p %[2]s && s5cmd --endpoint-url %[1]s cp 's3://s5cmd/set/*' %[2]s/ >/dev/null && b3sum --num-threads 2 %[2]s/* >/dev/null && sync -f %[2]s", b.s3.url, restored("s5cmd-s3"))}},
		contender{name: "rclone-s3", need: []string{"rclone"}, prepare: bucket("rclone"), env: b.s3.rclone(),
			put: []string{"rclone", "sync", "--checksum", src, "bench:rclone/set"},
			get: []string{"rclone", "copy", "bench:rclone/set", restored("rclone-s3")}},
	)
}

// missing returns the first program that c needs and is not here.
func (b *bench) missing(c contender) string {
	for _, p := range c.need {
		if !b.have[p] {
			return p
		}
	}
	return ""
}

func (b *bench) look() {
	b.have = map[string]bool{}
	for _, p := range []string{"b3sum", "restic", "rclone", "s5cmd"} {
		_, err := exec.LookPath(p)
		b.have[p] = err == nil
	}
}
