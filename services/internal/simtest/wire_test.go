package simtest

import (
	"bytes"
	"strconv"
	"strings"
)

// command is one line that a client sends, with its payload.
type command struct {
	verb    string // "PUB", "HPUB", "SUB" of a queue group, "" of everything else
	subject string
	raw     []byte
}

// commands splits what a client writes. The client writes whole commands; what
// cannot be read as one is passed on as it is.
func commands(b []byte) []command {
	var out []command
	for len(b) > 0 {
		line, _, found := bytes.Cut(b, []byte("\r\n"))
		if !found {
			return append(out, command{raw: b})
		}
		f := strings.Fields(string(line))
		size := len(line) + 2
		c := command{}
		if len(f) == 4 && f[0] == "SUB" {
			c.verb, c.subject = f[0], f[1]
		}
		if len(f) > 2 && (f[0] == "PUB" || f[0] == "HPUB") {
			n, err := strconv.Atoi(f[len(f)-1])
			if err != nil || size+n+2 > len(b) {
				return append(out, command{raw: b})
			}
			c.verb, c.subject = f[0], f[1]
			size += n + 2
		}
		c.raw = b[:size]
		out, b = append(out, c), b[size:]
	}
	return out
}

// verdict is what becomes of a command.
type verdict int

const (
	pass   verdict = iota
	lose           // it never arrives
	repeat         // it arrives twice
	sever          // it arrives, and the connection breaks before any answer
	kill           // it arrives, and the sender dies before any answer
	dead           // the sender died before
)

// wire judges the commands of the control plane on their way to the bus.
type wire struct {
	judge func(command) verdict
	die   func() // ends the control plane; called outside every lock
}

func (w *wire) write(c *cable, b []byte) error {
	for _, cmd := range commands(b) {
		v := w.judge(cmd)
		switch v {
		case lose:
			continue
		case dead:
			c.silence()
			w.die()
			return nil
		case repeat:
			if _, err := c.Conn.Write(cmd.raw); err != nil {
				return err
			}
		case sever, kill:
			c.silence() // before the bus can have answered
		}
		if _, err := c.Conn.Write(cmd.raw); err != nil {
			return err
		}
		switch v {
		case sever:
			go func() { // once the bus has done what it does at this moment
				turn("sever")
				c.Close()
			}()
			return nil
		case kill:
			w.die()
			return nil
		}
	}
	return nil
}
