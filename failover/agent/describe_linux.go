package agent

import (
	"bytes"
	"fmt"
	"os"
	"strings"
)

// maxDescribed is the most processes that one description tells of.
const maxDescribed = 30

// Describe says what every process of the tree is doing, a line for each: what
// it waits for in the kernel tells a stalled trainer from a slow one.
func (p *linuxProcess) Describe() []string {
	tree, err := p.tree()
	if err != nil {
		return []string{"its processes cannot be read: " + err.Error()}
	}
	var lines []string
	for i, m := range tree {
		if i == maxDescribed {
			lines = append(lines, fmt.Sprintf("and %d more processes", len(tree)-i))
			break
		}
		lines = append(lines, m.describe())
	}
	return lines
}

func (p proc) describe() string {
	read := func(name string) string {
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", p.pid, name))
		if err != nil {
			return ""
		}
		return string(data)
	}
	line := fmt.Sprintf("process %d (parent %d) %q state %s", p.pid, p.ppid, strings.TrimSpace(read("comm")), state(read("stat")))
	if wait := strings.TrimSpace(read("wchan")); wait != "" && wait != "0" {
		line += " waits in " + wait
	}
	if threads, _, ok := strings.Cut(after(read("status"), "\nThreads:"), "\n"); ok {
		line += " threads " + strings.TrimSpace(threads)
	}
	if stack := strings.Fields(strings.ReplaceAll(read("stack"), "[<0>]", "")); len(stack) > 0 {
		line += " kernel stack " + strings.Join(stack[:min(len(stack), 8)], " ")
	}
	return line
}

func state(stat string) string {
	f := bytes.Fields([]byte(stat[strings.LastIndexByte(stat, ')')+1:]))
	if len(f) == 0 {
		return "?"
	}
	return string(f[0])
}

func after(s, mark string) string {
	_, rest, _ := strings.Cut(s, mark)
	return rest
}
