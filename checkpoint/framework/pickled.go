package framework

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"io"
	"os"
	"strings"
)

// maxPickle bounds what is searched of one pickle; that of a model with ten
// thousand tensors has a few megabytes.
const maxPickle = 64 << 20

// pickle returns the bytes of the pickle in an archive by torch.save, to be
// searched and never executed; nil when there is none.
func pickle(root *os.Root, e entry) []byte {
	f, err := open(root, e.path)
	if err != nil {
		return nil
	}
	defer f.Close()
	z, err := zip.NewReader(f, e.size)
	if err != nil {
		return nil
	}
	for _, m := range z.File {
		if !strings.HasSuffix(m.Name, "/data.pkl") || m.Method != zip.Store {
			continue
		}
		r, err := m.Open()
		if err != nil {
			return nil
		}
		defer r.Close()
		b, err := io.ReadAll(io.LimitReader(r, maxPickle))
		if err != nil {
			return nil
		}
		return b
	}
	return nil
}

// pickled returns the integer, or 0 or 1 for a bool, that follows a text as a
// dictionary's value follows its key. The texts looked for are such that nobody
// else has them; what is found decides nothing that a lie could turn against
// anybody but the job itself.
func pickled(b []byte, key string) (int64, bool) {
	for _, text := range []string{
		"X" + string(binary.LittleEndian.AppendUint32(nil, uint32(len(key)))) + key, // BINUNICODE
		"\x8c" + string(rune(len(key))) + key,                                       // SHORT_BINUNICODE
	} {
		if i := bytes.Index(b, []byte(text)); i >= 0 {
			return integer(memoized(b[i+len(text):]))
		}
	}
	return 0, false
}

// memoized skips the instruction that remembers a text for later.
func memoized(b []byte) []byte {
	skip := 0
	switch {
	case len(b) == 0:
	case b[0] == 'q': // BINPUT
		skip = 2
	case b[0] == 'r': // LONG_BINPUT
		skip = 5
	case b[0] == 0x94: // MEMOIZE
		skip = 1
	}
	return b[min(skip, len(b)):]
}

func integer(b []byte) (int64, bool) {
	wide := map[byte]int{'K': 1, 'M': 2, 'J': 4} // BININT1, BININT2, BININT
	switch {
	case len(b) == 0:
		return 0, false
	case b[0] == 0x88, b[0] == 0x89: // NEWTRUE, NEWFALSE
		return int64(0x89 - b[0]), true
	case b[0] == 0x8a && len(b) > 2 && b[1] <= 7 && len(b) >= 2+int(b[1]): // LONG1
		return little(b[2 : 2+b[1]]), true
	}
	n := wide[b[0]]
	if n == 0 || len(b) <= n {
		return 0, false
	}
	return little(b[1 : 1+n]), true
}

func little(b []byte) int64 {
	var n int64
	for i, c := range b {
		n |= int64(c) << (8 * i)
	}
	return n
}
