package checkpoint

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"lukechampine.com/blake3"
)

// The layout, below whatever root the store has:
//
//	v1/<tenant>/jobs/<job>/ckpt/<ref name>        manifests
//	v1/<tenant>/jobs/<job>/data/<epoch>/<hash>    chunks and packs, by their own hash
//	v1/<tenant>/files/<hh>/<hash>                 whole files of manifests of schema 1
//
// An object of data is written by the agent of its epoch alone, and found by
// later epochs only through a committed manifest: see docs/decisions/0014.
const layout = "v1"

// DataPrefix returns what the names of a job's chunks and packs begin with.
func DataPrefix(tenant, job string) string {
	return layout + "/" + tenant + "/jobs/" + job + "/data/"
}

// EpochPrefix returns what the names of those written in one epoch begin with.
func EpochPrefix(tenant, job string, epoch int) string {
	return fmt.Sprintf("%s%010d/", DataPrefix(tenant, job), epoch)
}

// dataName returns the object name of a chunk or pack.
func dataName(tenant, job string, epoch int, hash string) string {
	return EpochPrefix(tenant, job, epoch) + hash
}

// fileName returns the object name of a whole file of schema 1.
func fileName(tenant, hash string) string {
	return layout + "/" + tenant + "/files/" + hash[:2] + "/" + hash
}

// ManifestName returns the object name of a job's checkpoint.
func ManifestName(tenant, job string, ref Ref) string {
	return Prefix(tenant, job) + ref.Name
}

// Prefix returns what the object names of a job's manifests begin with.
func Prefix(tenant, job string) string {
	return layout + "/" + tenant + "/jobs/" + job + "/ckpt/"
}

// token checks a tenant or job name: one part of an object name, of at most 128
// letters, digits, '-', '_' and '.', not beginning with a dot.
func token(what, s string) error {
	odd := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_' && r != '.'
	}
	if s == "" || len(s) > 128 || s[0] == '.' || strings.ContainsFunc(s, odd) {
		return fmt.Errorf("%s %s cannot be part of an object name", what, quote(s))
	}
	return nil
}

// digest returns the BLAKE3-256 of b in hex.
func digest(b []byte) string {
	sum := blake3.Sum256(b)
	return hex.EncodeToString(sum[:])
}

const hashLen = 64

func isHash(s string) bool {
	return len(s) == hashLen && strings.Trim(s, "0123456789abcdef") == ""
}

// quote shows a name from outside in an error: escaped, and cut when it is long.
func quote(s string) string {
	const most = 300
	if len(s) > most {
		return strconv.Quote(s[:most]) + "…"
	}
	return strconv.Quote(s)
}

// wrap joins what an error means for the caller with what was seen.
func wrap(meaning, seen error) error { return fmt.Errorf("%w: %w", meaning, seen) }
