package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
)

// print shows the medians, and the ratios that are promised.
func (r *results) print(w io.Writer) {
	disk := float64(2<<30) / median(r.Disk).Wall.Seconds()
	fmt.Fprintf(w, "%.2f GB, of which %.2f GB change; medians of %d; the disk takes %.2f GB/s past the cache\n\n",
		float64(r.Bytes)/1e9, float64(r.Changed)/1e9, r.Rounds, disk/1e9)
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "\t\twall s\tGB/s\tCPU s\tCPU s/GB\tpeak MB\tsent GB\t")
	for _, name := range r.order {
		for _, act := range acts {
			runs := r.Runs[name][act]
			if len(runs) == 0 {
				continue
			}
			m, gb := median(runs), float64(r.Bytes)/1e9
			sent := "-"
			if m.Sent > 0 || name[0] == 's' && name[1] == 'p' && act != restored {
				sent = fmt.Sprintf("%.3f", float64(m.Sent)/1e9)
			}
			fmt.Fprintf(t, "%s\t%s\t%.2f\t%.2f\t%.2f\t%.2f\t%.0f\t%s\t\n", name, act, m.Wall.Seconds(),
				gb/m.Wall.Seconds(), m.CPU.Seconds(), m.CPU.Seconds()/gb, float64(m.RSS)/1e6, sent)
		}
	}
	_ = t.Flush() // of a table in memory
	fmt.Fprintln(w)
	r.ratios(w, disk)
	for _, name := range slices.Sorted(maps.Keys(r.Absent)) {
		fmt.Fprintf(w, "not measured: %s: %s\n", name, r.Absent[name])
	}
}

// ratios are the promises, each with what was seen.
func (r *results) ratios(w io.Writer, disk float64) {
	wall := func(name, act string) float64 {
		if runs := r.Runs[name][act]; len(runs) > 0 {
			return median(runs).Wall.Seconds()
		}
		return 0
	}
	say := func(what string, seen, over float64, floor string) {
		if seen > 0 && over > 0 {
			fmt.Fprintf(w, "%-58s %6.3f   (%s)\n", what, seen/over, floor)
		}
	}
	gb := float64(r.Bytes)
	mine := func(act string) run {
		if runs := r.Runs["spotferry"][act]; len(runs) > 0 {
			return median(runs)
		}
		return run{}
	}
	if s := wall("spotferry", full); s > 0 {
		say("full to a directory, over the disk's write rate", gb/s, disk, "at least 0.89, aim 0.95")
	}
	say("full to a directory, wall over restic's", wall("spotferry", full), wall("restic", full), "at most 0.18, aim 0.15")
	say("full to a directory, wall over cp and sync", wall("spotferry", full), wall("cp", full), "information")
	say("changed, wall over its own full", wall("spotferry", changed), wall("spotferry", full), "at most 0.56, aim 0.45")
	say("changed, bytes sent over bytes changed", float64(mine(changed).Sent), float64(r.Changed), "at most 1.17, aim 1.10")
	say("unchanged, milliseconds per GB", 1e3*wall("spotferry", unchanged), gb/1e9, "at most 20")
	// The store lies on the disk that is restored to: each byte is read from it and written to it.
	say("restore verified, read and written, over the disk's rate", 2*gb, wall("spotferry", restored)*disk, "at least 0.8")
	say("restore verified, wall over cp, b3sum and sync", wall("spotferry", restored), wall("cp", restored), "information")
	say("full to S3, wall over rclone's", wall("spotferry-s3", full), wall("rclone-s3", full), "at most 0.18, aim 0.15")
	say("full to S3, wall over s5cmd's", wall("spotferry-s3", full), wall("s5cmd-s3", full), "information")
	if runs := r.Runs["spotferry-s3"][full]; len(runs) > 0 {
		say("full to S3, client's CPU seconds per GB", median(runs).CPU.Seconds(), gb/1e9, "at most 1.06, aim 0.9")
	}
	say("restore from S3 verified, wall over s5cmd, b3sum and sync", wall("spotferry-s3", restored), wall("s5cmd-s3", restored), "at most 1.1")
	say("peak memory of a full put, MB", float64(mine(full).RSS), 1e6, "below 100")
}
