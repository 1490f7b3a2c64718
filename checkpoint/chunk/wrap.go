package chunk

import (
	"errors"
	"fmt"
	"io"
)

// KEK is the key-encryption key of an installation: the keys of its tenants are
// stored under it. It never leaves the gateway.
type KEK [32]byte

// String keeps keys out of logs and error messages.
func (KEK) String() string { return "key-encryption key (not shown)" }

// GoString is String.
func (k KEK) GoString() string { return k.String() }

// The wrapped form is a byte of version, 12 bytes of random nonce, the key
// encrypted with AES-256-GCM, and the tag. The tenant is authenticated with it.
const (
	wrapVersion = 1
	wrapLen     = 1 + gcmNonce + len(Key{}) + sealTag
)

// ErrWrapped is the answer to a wrapped key that this KEK did not wrap for this
// tenant, or that has changed since.
var ErrWrapped = errors.New("wrapped key does not open: another key-encryption key or tenant, or damaged")

// Wrap returns key as it may be stored: only kek opens it again, and only for
// the same tenant, so that two tenants' rows cannot be exchanged. random gives
// the nonce, in production crypto/rand.Reader; a KEK may wrap 2^32 times.
//
// To rotate the KEK, unwrap each tenant's key with the old one and wrap it with
// the new. No checkpoint is touched: their bytes know only the tenant's key.
func Wrap(kek KEK, key Key, tenant string, random io.Reader) ([]byte, error) {
	if kek == (KEK{}) {
		return nil, errors.New("wrapping a key: the key-encryption key is empty; generate one of 32 random bytes")
	}
	if key == (Key{}) {
		return nil, errors.New("wrapping a key: the tenant's key is empty; make one with NewKey")
	}
	out := make([]byte, 1+gcmNonce, wrapLen)
	out[0] = wrapVersion
	if _, err := io.ReadFull(random, out[1:]); err != nil {
		return nil, fmt.Errorf("wrapping a key: reading a nonce: %w", err)
	}
	return newGCM(kek[:]).Seal(out, out[1:], key[:], wrapBound(tenant)), nil
}

// Unwrap is the inverse of Wrap, or ErrWrapped.
func Unwrap(kek KEK, wrapped []byte, tenant string) (Key, error) {
	if len(wrapped) != wrapLen || wrapped[0] != wrapVersion {
		return Key{}, ErrWrapped
	}
	nonce, sealed := wrapped[1:1+gcmNonce], wrapped[1+gcmNonce:]
	var key Key
	if _, err := newGCM(kek[:]).Open(key[:0], nonce, sealed, wrapBound(tenant)); err != nil {
		return Key{}, ErrWrapped
	}
	if key == (Key{}) {
		return Key{}, ErrWrapped
	}
	return key, nil
}

func wrapBound(tenant string) []byte {
	return append([]byte("spotferry.dev tenant key for checkpoints v1\x00"), tenant...)
}
