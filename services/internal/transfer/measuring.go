package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// The acts of a round, in order. Between full and changed the data set changes;
// before restored the caches are dropped only where what was restored is compared.
const (
	full      = "full"
	changed   = "changed"
	unchanged = "unchanged"
	restored  = "restored"
)

var acts = []string{full, changed, unchanged, restored}

// results are all runs, by contender and act, and the limits of the machine.
type results struct {
	Rounds  int                         `json:"rounds"`
	Bytes   int64                       `json:"bytes"`   // of the data set
	Changed int64                       `json:"changed"` // bytes that differ in the second put
	Runs    map[string]map[string][]run `json:"runs"`
	Disk    []run                       `json:"disk"` // 2 GiB written past the cache, in pieces of 8 MiB
	Absent  map[string]string           `json:"absent"`
	order   []string
}

func (b *bench) measure(ctx context.Context, rounds int) (*results, error) {
	r := &results{Rounds: rounds, Changed: changedBytes, Runs: map[string]map[string][]run{}, Absent: map[string]string{}}
	var taking []contender
	for _, c := range b.contenders() {
		if len(b.only) > 0 && !slices.Contains(b.only, c.name) {
			continue
		}
		if p := b.missing(c); p != "" {
			r.Absent[c.name] = p + " is not on this machine"
			continue
		}
		taking = append(taking, c)
		r.order = append(r.order, c.name)
		r.Runs[c.name] = map[string][]run{}
	}
	if b.s3 == nil {
		r.Absent["everything to S3"] = "versitygw is not on this machine"
	}
	for i := range rounds {
		if err := b.round(ctx, r, taking, uint64(i+1), fmt.Sprintf("round %d of %d", i+1, rounds)); err != nil {
			return nil, err
		}
	}
	return r, nil
}

func (b *bench) round(ctx context.Context, r *results, taking []contender, seed uint64, title string) (err error) {
	say := func(what string) { fmt.Fprintf(os.Stderr, "%s: %s\n", title, what) }
	say("generating the data set")
	if err := empty(b.path("src"), b.path("target"), b.path("state"), b.path("s3"), b.path("restored")); err != nil {
		return err
	}
	if err := generate(b.path("src"), seed); err != nil {
		return err
	}
	if r.Bytes, err = size(b.path("src")); err != nil {
		return err
	}
	for _, c := range taking {
		if c.prepare == nil {
			continue
		}
		if err := c.prepare(ctx); err != nil {
			return err
		}
	}
	defer func() {
		for name, s := range b.sessions {
			err = errors.Join(err, s.stop())
			delete(b.sessions, name)
		}
	}()
	for _, act := range acts {
		if act == changed {
			if err := change(b.path("src"), seed); err != nil {
				return err
			}
		}
		if act == restored {
			if b.want, err = sums(ctx, b.path("src")); err != nil {
				return err
			}
		}
		for _, c := range taking {
			if act == unchanged && !c.again {
				continue
			}
			say(c.name + ", " + act)
			// The disk's own rate drifts: it is taken before and after what is held against it.
			against := c.name == "spotferry" && (act == full || act == restored)
			if against {
				if err := r.rawDisk(ctx, b); err != nil {
					return err
				}
			}
			one, err := b.act(ctx, c, act)
			if err != nil {
				return fmt.Errorf("%s, %s: %w", c.name, act, err)
			}
			r.Runs[c.name][act] = append(r.Runs[c.name][act], one)
			if against {
				if err := r.rawDisk(ctx, b); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (b *bench) act(ctx context.Context, c contender, act string) (run, error) {
	if err := syncfs(b.dir); err != nil {
		return run{}, err
	}
	if act != restored {
		flush := ""
		if c.local {
			flush = b.dir
		}
		one, err := b.put(ctx, c, flush)
		if err != nil {
			return one, err
		}
		var told struct {
			Sent int64 `json:"sent"`
		}
		if json.Unmarshal(one.Out, &told) == nil {
			one.Sent = told.Sent
		}
		return one, nil
	}
	one, err := timed(ctx, c.env, b.dir, c.get...)
	if err != nil {
		return one, err
	}
	return one, b.compare(ctx, c)
}

// put is one put, by a process of its own or by the one that stays.
func (b *bench) put(ctx context.Context, c contender, flush string) (run, error) {
	if !c.stays {
		return timed(ctx, c.env, flush, c.put...)
	}
	s := b.sessions[c.name]
	if s == nil {
		var err error
		if s, err = start(c.env, c.put...); err != nil {
			return run{}, err
		}
		b.sessions[c.name] = s
	}
	return s.act(flush)
}

// compare reads back what was restored, past the caches, with a program that is
// not ours.
func (b *bench) compare(ctx context.Context, c contender) error {
	if f, err := os.OpenFile("/proc/sys/vm/drop_caches", os.O_WRONLY, 0); err == nil { // only root may
		_, werr := f.WriteString("1")
		if err := errors.Join(werr, f.Close()); err != nil {
			return err
		}
	}
	dir, err := treeOf(b.path("restored", c.name))
	if err != nil {
		return err
	}
	got, err := sums(ctx, dir)
	if err != nil {
		return err
	}
	if !bytes.Equal(b.want, got) {
		return fmt.Errorf("what %s restored differs from what it was given", c.name)
	}
	return os.RemoveAll(b.path("restored", c.name))
}

// sums are the names and SHA-256 of the files below dir.
func sums(ctx context.Context, dir string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "sh", "-c", "find . -type f | sort | xargs -d '\\n' -n 1 -P 2 sha256sum | sort -k 2")
	cmd.Dir = dir
	return cmd.Output()
}

// treeOf finds the directory with the files in it: some tools restore the path too.
func treeOf(dir string) (string, error) {
	for {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return "", err
		}
		if len(entries) != 1 || !entries[0].IsDir() {
			return dir, nil
		}
		dir = filepath.Join(dir, entries[0].Name())
	}
}

// rawDisk adds one measurement of the disk.
func (r *results) rawDisk(ctx context.Context, b *bench) error {
	file := b.path("raw")
	defer os.Remove(file)
	if err := syncfs(b.dir); err != nil {
		return err
	}
	disk, err := timed(ctx, nil, b.dir, strings.Fields("dd if=/dev/zero bs=8M count=256 oflag=direct conv=fsync of="+file)...)
	r.Disk = append(r.Disk, disk)
	return err
}

func size(dir string) (sum int64, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0, err
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			return 0, err
		}
		sum += info.Size()
	}
	return sum, nil
}
