package storage

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/spotferry/spotferry/checkpoint/chunk"
)

func TestEachOrganisationHasAKeyOfItsOwn(t *testing.T) {
	t.Parallel()
	k := Keys{Dir: filepath.Join(t.TempDir(), "operator")}
	if _, has, err := k.Of(t.Context(), "acme"); has || err != nil {
		t.Errorf("a key before it was made: %v, %v", has, err)
	}
	if err := k.Make("acme"); err != nil {
		t.Fatal(err)
	}
	one, has, err := k.Of(t.Context(), "acme")
	if !has || err != nil || one == (chunk.Key{}) {
		t.Fatalf("no key: %v, %v", has, err)
	}
	if err := errors.Join(k.Make("acme"), k.Make("other")); err != nil {
		t.Fatal(err)
	}
	if again, _, _ := k.Of(t.Context(), "acme"); again != one {
		t.Error("making it again changed it")
	}
	if two, _, _ := k.Of(t.Context(), "other"); two == one {
		t.Error("two organisations have one key")
	}
}

func TestAnotherOrganisationsFileOpensNothing(t *testing.T) {
	t.Parallel()
	k := Keys{Dir: t.TempDir()}
	if err := k.Make("acme"); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(k.file("acme"), k.file("other")); err != nil {
		t.Fatal(err)
	}
	if _, _, err := k.Of(t.Context(), "other"); !errors.Is(err, chunk.ErrWrapped) {
		t.Errorf("opened another's key: %v", err)
	}
	if err := os.WriteFile(filepath.Join(k.Dir, kekFile), []byte("short"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := k.Of(t.Context(), "other"); err == nil {
		t.Error("a damaged key-encryption key was taken")
	}
}
