package chunk

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"

	"lukechampine.com/blake3"
	"pgregory.net/rapid"
)

// testKey is a key with every byte b.
func testKey(b byte) (k Key) {
	for i := range k {
		k[i] = b
	}
	return k
}

func TestName(t *testing.T) {
	plain := []byte("the bytes of a piece")
	sum := blake3.Sum256(plain)
	none, a, b := Key{}.Name(plain), testKey(1).Name(plain), testKey(2).Name(plain)
	if want := hex.EncodeToString(sum[:]); none != want {
		t.Errorf("without a key the name is %s, want the plain hash %s", none, want)
	}
	if len(a) != 64 || a == none || a == b {
		t.Errorf("names under no key, one key and another: %s %s %s", none, a, b)
	}
	if a != testKey(1).Name(bytes.Clone(plain)) {
		t.Error("the same bytes have two names under one key")
	}
}

func TestSealedBytesOpen(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key := Key(rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "key"))
		data := rapid.SliceOf(rapid.Byte()).Draw(t, "data")
		name, codec := rapid.String().Draw(t, "name"), Codec(rapid.String().Draw(t, "codec"))
		sealed := key.Seal([]byte("dst"), data, name, codec)
		if want := 3 + len(data) + key.Overhead(); len(sealed) != want || string(sealed[:3]) != "dst" {
			t.Fatalf("sealed %d bytes to %d, want %d", len(data), len(sealed), want)
		}
		if again := key.Seal([]byte("dst"), data, name, codec); !bytes.Equal(again, sealed) {
			t.Fatal("the same input was sealed differently")
		}
		if key != (Key{}) && len(data) > 8 && bytes.Contains(sealed, data) {
			t.Fatal("the data can be read")
		}
		got, err := key.Open([]byte("dst"), sealed[3:], name, codec)
		if err != nil || string(got) != "dst"+string(data) {
			t.Fatalf("Open = %q, %v", got, err)
		}
	})
}

// The law that GCM needs: no two different messages have the same nonce. The
// pieces of a message must not be able to change places without changing it.
func TestNoTwoMessagesHaveTheSameNonce(t *testing.T) {
	key := testKey(9)
	seen := map[[sealNonce]byte]string{}
	check := func(t interface{ Fatalf(string, ...any) }, name string, codec Codec, data []byte) {
		nonce := [sealNonce]byte(key.Seal(nil, data, name, codec)[1:SealPrefix])
		message := fmt.Sprintf("%q %q %q", name, codec, data)
		if other, ok := seen[nonce]; ok && other != message {
			t.Fatalf("the same nonce for %s and %s", other, message)
		}
		seen[nonce] = message
	}
	// Every way to write one run of bytes as codec, name and data.
	const run = "planes\x00\x00\x00\x04abcd"
	for i := range len(run) + 1 {
		for j := i; j <= len(run); j++ {
			check(t, run[i:j], Codec(run[:i]), []byte(run[j:]))
		}
	}
	few := rapid.SampledFrom([]string{"", "a", "b", "ab", "\x00", "\x01", "zstd", "planes"})
	rapid.Check(t, func(t *rapid.T) {
		data := few.Draw(t, "data") + few.Draw(t, "more data")
		check(t, few.Draw(t, "name"), Codec(few.Draw(t, "codec")), []byte(data))
	})
	// What made a nonce from name and codec unsafe: other encodings of the same
	// plain bytes, as another version of an encoder makes them.
	name := key.Name([]byte("plain"))
	for i := range 100 {
		check(t, name, Zstd, []byte{byte(i)})
	}
	if again := key.Seal(nil, []byte{1}, name, Zstd); seen[[sealNonce]byte(again[1:SealPrefix])] == "" {
		t.Error("the same message has another nonce: equal pieces would not be found again")
	}
}

func TestOpenRefuses(t *testing.T) {
	key, data := testKey(1), []byte("thirty-two bytes of a checkpoint")
	name := key.Name(data)
	sealed := key.Seal(nil, data, name, Planes)
	for _, tc := range []struct {
		name   string
		key    Key
		sealed []byte
		piece  string
		codec  Codec
	}{
		{"another tenant's key", testKey(2), sealed, name, Planes},
		{"another piece's name", key, sealed, key.Name([]byte("other")), Planes},
		{"another codec", key, sealed, name, Zstd},
		{"no codec", key, sealed, name, Raw},
		{"nothing", key, nil, name, Planes},
		{"less than what Seal adds", key, sealed[:key.Overhead()-1], name, Planes},
		{"bytes that end early", key, sealed[:len(sealed)-1], name, Planes},
		{"bytes that go on", key, append(bytes.Clone(sealed), 0), name, Planes},
		{"bytes that were never sealed", key, data, name, Planes},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := tc.key.Open([]byte("before"), tc.sealed, tc.piece, tc.codec)
			if !errors.Is(err, ErrSealed) || string(got) != "before" {
				t.Errorf("Open = %q, %v; want dst and ErrSealed", got, err)
			}
		})
	}
	t.Run("any one bit flipped", func(t *testing.T) {
		for i := range 8 * len(sealed) {
			bad := bytes.Clone(sealed)
			bad[i/8] ^= 1 << (i % 8)
			if got, err := key.Open(nil, bad, name, Planes); !errors.Is(err, ErrSealed) || got != nil {
				t.Fatalf("bit %d: Open = %q, %v", i, got, err)
			}
		}
	})
}

func TestSealingAndOpeningInPlace(t *testing.T) {
	key := testKey(4)
	data := noise(rng(1), 10_000)
	want := key.Seal(nil, data, "n", Raw)

	room := make([]byte, 5+len(data)+key.Overhead())
	copy(room[5+SealPrefix:], data)
	sealed := key.Seal(room[:5], room[5+SealPrefix:5+SealPrefix+len(data)], "n", Raw)[5:]
	if !bytes.Equal(sealed, want) || &sealed[0] != &room[5] {
		t.Fatal("sealed in place: other bytes, or another place")
	}
	got, err := key.Open(sealed[SealPrefix:SealPrefix], sealed, "n", Raw)
	if err != nil || !bytes.Equal(got, data) || &got[0] != &room[5+SealPrefix] {
		t.Errorf("opened in place: %v, other bytes, or another place", err)
	}
}

func TestTheZeroKeyIsNone(t *testing.T) {
	var none Key
	data := []byte("plain")
	if got := none.Seal([]byte("a "), data, "n", Zstd); string(got) != "a plain" || none.Overhead() != 0 {
		t.Errorf("Seal = %q, overhead %d", got, none.Overhead())
	}
	if got, err := none.Open([]byte("a "), data, "n", Zstd); err != nil || string(got) != "a plain" {
		t.Errorf("Open = %q, %v", got, err)
	}
	if a, b := NewKey(), NewKey(); a == none || a == b {
		t.Error("NewKey gives no key, or the same twice")
	}
}

func TestKeysDoNotShowWhenPrinted(t *testing.T) {
	key := testKey(0xab)
	text := fmt.Sprintf("%v %+v %#v %s %x %q %v %v", key, key, key, key, key, key, KEK(key), struct{ K Key }{key})
	if strings.Contains(text, "171") || strings.Contains(text, "abab") || strings.Contains(text, "0xab") {
		t.Errorf("the key shows: %s", text)
	}
}

func FuzzOpen(f *testing.F) {
	key := testKey(1)
	f.Add(key.Seal(nil, []byte("data"), "name", Planes), "name")
	f.Add([]byte{}, "")
	f.Add(make([]byte, key.Overhead()), "name")
	f.Fuzz(func(t *testing.T, sealed []byte, name string) {
		got, err := key.Open(nil, sealed, name, Planes)
		if err == nil && !bytes.Equal(key.Seal(nil, got, name, Planes), sealed) {
			t.Fatalf("%x opens as %x, which is sealed otherwise", sealed, got)
		}
	})
}
