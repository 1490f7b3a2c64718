package chunk

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"

	"lukechampine.com/blake3"
)

// Key is a tenant's key for its checkpoints. The zero Key means none: names are
// plain hashes and bytes are not sealed.
//
// Nothing is encrypted under the Key itself. From it come subkeys, each
// for one purpose: for names, for synthetic nonces and for sealing.
type Key [32]byte

// NewKey returns a key from the system's random source.
func NewKey() Key {
	var k Key
	rand.Read(k[:]) // never fails: the program ends if there is no randomness
	return k
}

// String keeps keys out of logs and error messages.
func (k Key) String() string {
	if k == (Key{}) {
		return "no key"
	}
	return "key (not shown)"
}

// GoString is String.
func (k Key) GoString() string { return k.String() }

// What the subkeys are for. A context is never used for anything else and never
// changes: names and sealed bytes in stores depend on it.
const (
	forNames   = "spotferry.dev 2026-11-30 checkpoint piece names v1"
	forData    = "spotferry.dev 2026-11-30 checkpoint piece sealed data v1"
	forNonces  = "spotferry.dev 2026-11-30 checkpoint piece synthetic nonces v1"
	forSealing = "spotferry.dev 2026-11-30 checkpoint piece sealing v1"
)

// subkey is the one for context.
func (k Key) subkey(context string) (sub [32]byte) {
	blake3.DeriveKey(sub[:], context, k[:])
	return sub
}

// Name returns what a piece with these plain bytes is called: 64 hex digits.
// Under a key, whoever reads the store cannot tell whether a piece holds bytes
// that he knows.
func (k Key) Name(plain []byte) string {
	sum := k.hash(forNames, plain)
	return hex.EncodeToString(sum[:])
}

// hash is the hash of data for one purpose; under the zero Key it is the plain one.
func (k Key) hash(context string, data []byte) [32]byte {
	if k == (Key{}) {
		return hash(data)
	}
	sub := k.subkey(context)
	return keyedHash(&sub, data)
}

// The sealed form is a byte of version, the synthetic nonce, and what AES-256-GCM
// makes of the data: the ciphertext and a tag.
const (
	sealVersion = 1
	sealNonce   = 24
	sealTag     = 16
	gcmNonce    = 12

	// SealPrefix is how much of the sealed form comes before the ciphertext.
	SealPrefix = 1 + sealNonce
)

// ErrSealed is the answer to bytes that were not sealed under this key, for this
// name and codec, or have changed since.
var ErrSealed = errors.New("sealed bytes do not open: wrong key, or damaged")

// Overhead is how many bytes Seal adds under k.
func (k Key) Overhead() int {
	if k == (Key{}) {
		return 0
	}
	return SealPrefix + sealTag
}

// Seal appends data, encrypted and authenticated together with the name of the
// piece and its codec, to dst. The same input gives the same output. Under the
// zero Key it appends data as it is.
//
// GCM is broken by two messages under one key and nonce. A nonce made of name
// and codec would repeat: a later version of an encoder, or another setting,
// makes other bytes of the same plain ones. So the nonce is synthetic (as in
// SIV, RFC 5297): a pseudo-random function of everything that is sealed, name,
// codec and data, so that the same nonce means the same message. Its 24 bytes
// go with the message and select a key of the message's own, in which GCM's 12
// bytes of nonce are fixed: two of 2^64 messages have the same with a
// probability of 2^-65, where 12 bytes would reach NIST's bound of 2^-32 after
// 2^32 messages, a month's worth of large checkpoints. What an observer learns
// is that equal messages are equal, which their names say already.
//
// To seal in place, data may lie SealPrefix behind the end of dst in dst's own
// array, with room for the rest.
func (k Key) Seal(dst, data []byte, name string, codec Codec) []byte {
	if k == (Key{}) {
		return append(dst, data...)
	}
	bound := associated(name, codec)
	synthetic := k.synthetic(bound, data)
	at := len(dst)
	dst = append(extend(dst, k.Overhead()+len(data))[:at], sealVersion)
	dst = append(dst, synthetic[:]...)
	return k.cipher(synthetic).Seal(dst, make([]byte, gcmNonce), data, bound)
}

// Open is the inverse of Seal. Whatever is not exactly what Seal made under this
// key, name and codec is ErrSealed, and nothing is appended.
//
// To open in place, dst may be sealed[SealPrefix:SealPrefix]. After an error
// the room in dst has been cleared.
func (k Key) Open(dst, sealed []byte, name string, codec Codec) ([]byte, error) {
	if k == (Key{}) {
		return append(dst, sealed...), nil
	}
	if len(sealed) < k.Overhead() || sealed[0] != sealVersion {
		return dst, ErrSealed
	}
	gcm := k.cipher([sealNonce]byte(sealed[1:SealPrefix]))
	out, err := gcm.Open(dst, make([]byte, gcmNonce), sealed[SealPrefix:], associated(name, codec))
	if err != nil {
		return dst, ErrSealed
	}
	return out, nil
}

// synthetic is the nonce of a message: a pseudo-random function of bound and data.
func (k Key) synthetic(bound, data []byte) [sealNonce]byte {
	of := k.hash(forData, data)
	sum := k.hash(forNonces, append(bound[:len(bound):len(bound)], of[:]...))
	return [sealNonce]byte(sum[:])
}

// cipher is the one for the message with this nonce.
func (k Key) cipher(synthetic [sealNonce]byte) cipher.AEAD {
	sub := k.hash(forSealing, synthetic[:])
	return newGCM(sub[:])
}

// newGCM is AES-256-GCM under a key of 32 bytes.
func newGCM(key []byte) cipher.AEAD {
	block, err := aes.NewCipher(key)
	if err != nil {
		panic(err) // a bug: the key is not 32 bytes long
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		panic(err) // a bug: AES has blocks of 16 bytes
	}
	return gcm
}

// associated are the bytes a message is bound to beside itself. Lengths in front
// make sure that no two sets of name, codec and data are hashed as the same bytes.
func associated(name string, codec Codec) []byte {
	out := make([]byte, 0, 1+4+len(codec)+4+len(name))
	out = append(out, sealVersion)
	out = binary.BigEndian.AppendUint32(out, uint32(len(codec)))
	out = append(out, codec...)
	out = binary.BigEndian.AppendUint32(out, uint32(len(name)))
	return append(out, name...)
}
