package terminal

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
)

// ErrNoAnswer says that the input ended before there was an answer.
var ErrNoAnswer = errors.New("nobody answered")

// Confirm asks a question that is answered with yes or no; an empty answer is
// no. It asks again, twice, what it did not understand. A read that ctx
// interrupts stays behind until the process ends.
func (t *Terminal) Confirm(ctx context.Context, question string) (bool, error) {
	t.Done()
	in := bufio.NewReaderSize(t.In, 256)
	for range 3 {
		fmt.Fprintf(t.Err, "%s [y/N] ", SafeLines(question))
		answer, err := readLine(ctx, in)
		if err != nil {
			fmt.Fprintln(t.Err)
			return false, err
		}
		switch strings.ToLower(strings.TrimSpace(answer)) {
		case "y", "yes":
			return true, nil
		case "", "n", "no":
			return false, nil
		}
		fmt.Fprintln(t.Err, "Please answer y or n.")
	}
	return false, nil
}

func readLine(ctx context.Context, in *bufio.Reader) (string, error) {
	type read struct {
		line string
		err  error
	}
	got := make(chan read, 1)
	go func() {
		line, err := in.ReadString('\n')
		if errors.Is(err, io.EOF) {
			if err = nil; line == "" {
				err = ErrNoAnswer
			}
		}
		got <- read{line, err}
	}()
	select {
	case r := <-got:
		return r.line, r.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}
