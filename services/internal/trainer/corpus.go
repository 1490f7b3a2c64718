package trainer

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"slices"
	"strings"
)

const (
	builtinSize = 40_000
	maxTextSize = 64 << 20
)

// corpus is the text to learn, as positions in the alphabet of the bytes that
// occur in it.
type corpus struct {
	alphabet []byte
	text     []byte
	sha256   string // of the text as it was read
}

func newCorpus(text []byte) corpus {
	var seen [256]bool
	for _, b := range text {
		seen[b] = true
	}
	var at [256]byte
	sum := sha256.Sum256(text)
	c := corpus{text: slices.Clone(text), sha256: hex.EncodeToString(sum[:])}
	for b, ok := range seen {
		if ok {
			at[b] = byte(len(c.alphabet))
			c.alphabet = append(c.alphabet, byte(b))
		}
	}
	for i, b := range c.text {
		c.text[i] = at[b]
	}
	return c
}

// loadCorpus reads the file at path, or builds the built-in text for "".
func loadCorpus(path string) (corpus, error) {
	if path == "" {
		return newCorpus([]byte(builtinText())), nil
	}
	f, err := os.Open(path)
	if err != nil {
		return corpus{}, exitf(CodeUsage, "--text: %w: give a file that can be read, or leave the flag out for the built-in text", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxTextSize+1))
	switch {
	case err != nil:
		return corpus{}, exitf(CodeUsage, "--text: %w: give a file that can be read, or leave the flag out for the built-in text", err)
	case len(text) > maxTextSize:
		return corpus{}, exitf(CodeUsage, "--text: %s is larger than %d bytes: give a shorter text", path, maxTextSize)
	case len(text) < 2*contextLen:
		return corpus{}, exitf(CodeUsage, "--text: %s has %d bytes: give a text of at least %d", path, len(text), 2*contextLen)
	}
	return newCorpus(text), nil
}

// words are what the built-in text is made of. A capital in a pattern stands
// for one word of its class.
var words = map[rune][]string{
	'A': {"old", "grey", "narrow", "patient", "bright", "quiet", "northern", "salt-worn", "heavy", "slow"},
	'N': {"ferry", "harbour", "pilot", "lantern", "island", "cargo", "channel", "crew", "lighthouse", "engine", "tide", "bridge"},
	'V': {"crosses", "follows", "reaches", "carries", "leaves", "guards", "finds", "passes", "waits for", "returns to"},
	'P': {"before dawn", "under a low moon", "after the storm", "with the evening tide", "in thick fog", "without a sound"},
	'T': {"when", "because", "although", "while", "until"},
}

var patterns = []string{
	"the A N V the N P.",
	"the N V the A N.",
	"P, the N V the A N.",
	"the N V the N, T the A N V the N.",
	"no N V the N P, and no N V the A N.",
	"T the N V the N, the A N V it P.",
}

// builtinText writes sentences until there are enough of them. It depends on
// nothing, so that the text is the same in every run and for every seed.
func builtinText() string {
	var b strings.Builder
	r := stream(1)
	for b.Len() < builtinSize {
		for _, c := range patterns[r.below(len(patterns))] {
			if class, ok := words[c]; ok {
				b.WriteString(class[r.below(len(class))])
				continue
			}
			b.WriteRune(c)
		}
		b.WriteByte('\n')
	}
	return b.String()
}
