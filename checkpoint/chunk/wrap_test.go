package chunk

import (
	"bytes"
	"crypto/rand"
	"errors"
	"strings"
	"testing"
)

func TestWrap(t *testing.T) {
	kek, key := KEK(testKey(5)), testKey(6)
	wrapped, err := Wrap(kek, key, "acme", rand.Reader)
	if err != nil || len(wrapped) != wrapLen || bytes.Contains(wrapped, key[:8]) {
		t.Fatalf("Wrap = %x, %v", wrapped, err)
	}
	if got, err := Unwrap(kek, wrapped, "acme"); err != nil || got != key {
		t.Errorf("Unwrap: %v, or another key", err)
	}
	if again, _ := Wrap(kek, key, "acme", rand.Reader); bytes.Equal(again, wrapped) {
		t.Error("the same key was wrapped to the same bytes twice")
	}
	rotated, err := Wrap(KEK(testKey(9)), key, "acme", rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name    string
		kek     KEK
		wrapped []byte
		tenant  string
	}{
		{"another key-encryption key", KEK(testKey(9)), wrapped, "acme"},
		{"the old key-encryption key after rotation", kek, rotated, "acme"},
		{"no key-encryption key", KEK{}, wrapped, "acme"},
		{"another tenant's row", kek, wrapped, "other"},
		{"nothing", kek, nil, "acme"},
		{"bytes that end early", kek, wrapped[:wrapLen-1], "acme"},
		{"bytes that go on", kek, append(bytes.Clone(wrapped), 0), "acme"},
	} {
		t.Run("unwrapping refuses "+tc.name, func(t *testing.T) {
			if got, err := Unwrap(tc.kek, tc.wrapped, tc.tenant); !errors.Is(err, ErrWrapped) || got != (Key{}) {
				t.Errorf("Unwrap = %v, %v; want ErrWrapped", got, err)
			}
		})
	}
	for i := range 8 * wrapLen {
		bad := bytes.Clone(wrapped)
		bad[i/8] ^= 1 << (i % 8)
		if got, err := Unwrap(kek, bad, "acme"); !errors.Is(err, ErrWrapped) || got != (Key{}) {
			t.Fatalf("bit %d: Unwrap = %v, %v", i, got, err)
		}
	}
}

func TestWrapRefusesWhatWouldProtectNothing(t *testing.T) {
	for _, tc := range []struct {
		name   string
		kek    KEK
		key    Key
		random string
		want   string
	}{
		{"no key-encryption key", KEK{}, testKey(1), "twelve bytes", "key-encryption key is empty"},
		{"no key", KEK(testKey(1)), Key{}, "twelve bytes", "tenant's key is empty"},
		{"no randomness", KEK(testKey(1)), testKey(1), "eleven byte", "reading a nonce"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := Wrap(tc.kek, tc.key, "acme", strings.NewReader(tc.random))
			if got != nil || err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Wrap = %x, %v; want %q", got, err, tc.want)
			}
		})
	}
}
