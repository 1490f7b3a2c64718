package chunk

import (
	"bytes"
	"encoding/hex"
	"math/bits"
	"os"
	"strings"
	"testing"
)

// What stores hold must open for ever: if one of these fails, the change needs a
// new version beside the old, not a new expectation.
func TestWhatIsStoredStaysReadable(t *testing.T) {
	key, plain := testKey(7), []byte("stored by the first version")
	const (
		name   = "f4e36f3f93a0e8d77afb5dcb1cc18b8d0b4c3a3f"
		keyed  = "ee46345a2fa646cbeeea9f40b1dfacb4ece11433445e2ecd46e282a3f17fb801"
		sealed = "01f4129c57a0fc6e01404ff5e47f0832acd850ca9cc852adf07fac53684d300d" +
			"bc17b74798b2fe59c04fd194e1d04ae561c907f0732055db7f8e9a65c3509ae20755849f"
		wrapped = "0100000000000000000000000018b5ed6ea109ae563d33819266415d0f" +
			"975302de7a1d588b2ca8560367f52ed2c93444c773ed86c2628a1e704a3f40d5"
	)
	if got := key.Name(plain); got != keyed {
		t.Errorf("Name = %s", got)
	}
	if got := key.Seal(nil, plain, name, Planes); hex.EncodeToString(got) != sealed {
		t.Errorf("Seal = %x", got)
	}
	w, err := Wrap(KEK(testKey(8)), key, "acme", bytes.NewReader(make([]byte, 12)))
	if err != nil || hex.EncodeToString(w) != wrapped {
		t.Errorf("Wrap = %x, %v", w, err)
	}
	for _, codec := range []Codec{Planes, Zstd} {
		form, err := os.ReadFile("testdata/golden." + string(codec))
		if err != nil {
			t.Fatal(err)
		}
		want := golden(codec)
		if got, err := Decode(nil, form, codec, len(want)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("decoding %s: %v, or other bytes", codec, err)
		}
	}
}

// golden are the plain bytes of the files in testdata. Those of Planes have a
// block of each width and a plane of each kind in them.
func golden(codec Codec) []byte {
	if codec == Zstd {
		return []byte(strings.Repeat("{\"step\": 1200, \"loss\": 1.25}\n", 20))
	}
	var four, two, one []byte
	for i := range 256 {
		h := uint32(i) * 2654435761
		exponent := 0x3a + byte(bits.TrailingZeros32(h>>16|1<<4))
		four = append(four, 0, byte(h>>11), byte(h>>19), exponent)
		two = append(two, byte(h>>13), exponent)
		one = append(one, exponent)
	}
	return append(append(append(four, two...), one...), "tail"...)
}
