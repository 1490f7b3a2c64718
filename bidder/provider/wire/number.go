package wire

import (
	"bytes"
	"encoding/json"
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Number is a number in an answer, written as a number, as text, or not at all.
// Reading one never fails; asking what it is may.
type Number struct{ text string }

// UnmarshalJSON takes whatever is there.
func (n *Number) UnmarshalJSON(b []byte) error {
	n.text = string(textOf(b))
	return nil
}

// longest is the longest number that is looked at.
const longest = 64

// Float is the number, if it is one that is finite.
func (n Number) Float() (float64, bool) {
	if n.text == "" || len(n.text) > longest {
		return 0, false
	}
	f, err := strconv.ParseFloat(n.text, 64)
	return f, err == nil && !math.IsNaN(f) && !math.IsInf(f, 0)
}

// Int is the number rounded down, 0 if there is none or it is absurd.
func (n Number) Int() int {
	f, ok := n.Float()
	if !ok || math.Abs(f) > 1e15 {
		return 0
	}
	return int(math.Floor(f))
}

// ID is the number as the name of something: digits, or "".
func (n Number) ID() string {
	if n.text == "" || len(n.text) > 20 || strings.Trim(n.text, "0123456789") != "" {
		return ""
	}
	return n.text
}

// dearest is the highest amount that is believed, in dollars.
const dearest = 1e6

// Scaled is the number times scale, rounded half to even, if it is a believable
// amount of money: above zero and at most a million.
func (n Number) Scaled(scale int64) (int64, bool) {
	f, ok := n.Float()
	if !ok || f <= 0 || f > dearest {
		return 0, false
	}
	r, ok := new(big.Rat), false
	if !strings.ContainsAny(n.text, "eExXpP_/") {
		r, ok = r.SetString(n.text)
	}
	if !ok {
		r = new(big.Rat).SetFloat64(f)
	}
	v := roundEven(r.Mul(r, new(big.Rat).SetInt64(scale)))
	return v, v > 0
}

func roundEven(r *big.Rat) int64 {
	q, rem := new(big.Int).QuoRem(r.Num(), r.Denom(), new(big.Int))
	switch rem.Lsh(rem, 1).Cmp(r.Denom()) {
	case 1:
		q.Add(q, big.NewInt(1))
	case 0:
		q.Add(q, new(big.Int).And(q, big.NewInt(1)))
	}
	return q.Int64()
}

// String is the number as it was written.
func (n Number) String() string { return n.text }

// Text is text in an answer. What is no text is its JSON, null is "".
type Text string

// UnmarshalJSON takes whatever is there.
func (t *Text) UnmarshalJSON(b []byte) error {
	*t = Text(textOf(b))
	return nil
}

// longestName is how long the name of something may be.
const longestName = 64

// Name is the text as the name of something, or "" if none can be so long or have
// such letters.
func (t Text) Name() string {
	if len(t) > longestName || !utf8.ValidString(string(t)) || strings.ContainsFunc(string(t), unicode.IsControl) {
		return ""
	}
	return string(t)
}

func textOf(b []byte) []byte {
	b = bytes.TrimSpace(b)
	if bytes.Equal(b, []byte("null")) {
		return nil
	}
	var s string
	if len(b) > 0 && b[0] == '"' && json.Unmarshal(b, &s) == nil {
		return []byte(s)
	}
	return bytes.Clone(b)
}
