package trace

import (
	"compress/gzip"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"

	"github.com/spotferry/spotferry/events"
)

// table is a file of one value a tick and column.
type table[T any] struct {
	names   []string
	columns map[string][]T
	rows    int
}

const restore = "restore the file from the trace set"

// scan calls row for the header and every row of a compressed CSV file. Errors name file and line.
func scan(path string, row func(line int, fields []string) error) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("market: %w: give the directory that holds availability/ and prices/", err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return fmt.Errorf("%s:1: %w: %s", path, err, restore)
	}
	r := csv.NewReader(z)
	r.ReuseRecord = true
	for line := 1; ; line++ {
		fields, err := r.Read()
		if errors.Is(err, io.EOF) && line > 2 {
			return nil
		}
		if err == nil {
			err = row(line, fields)
		}
		if err != nil {
			return fmt.Errorf("%s:%d: %w: %s", path, line, err, restore)
		}
	}
}

// readColumns reads a file whose first column counts ticks from 0.
func readColumns[T any](path string, parse func(string) (T, error)) (table[T], error) {
	t := table[T]{columns: map[string][]T{}}
	err := scan(path, func(line int, fields []string) error {
		if line == 1 {
			if len(fields) < 2 || fields[0] != "tick" {
				return errors.New(`the first line is not "tick" and the names of pools`)
			}
			t.names = append(t.names, fields[1:]...)
			return nil
		}
		if fields[0] != strconv.Itoa(t.rows) {
			return fmt.Errorf("tick %q where tick %d should be", fields[0], t.rows)
		}
		for i, name := range t.names {
			v, err := parse(fields[i+1])
			if err != nil {
				return fmt.Errorf("column %s: %w", name, err)
			}
			t.columns[name] = append(t.columns[name], v)
		}
		t.rows++
		return nil
	})
	return t, err
}

func parseUp(s string) (bool, error) {
	if s != "0" && s != "1" {
		return false, fmt.Errorf("%q is neither 0 nor 1", s)
	}
	return s == "1", nil
}

func parsePrice(s string) (events.PerInstanceHour, error) {
	p, err := events.ParsePerInstanceHour(s)
	if err == nil && p <= 0 {
		err = fmt.Errorf("%q is no price", s)
	}
	return p, err
}
