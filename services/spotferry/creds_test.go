package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCredsAreMadeOnceAndNeverOverwritten(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "site")
	if r := command(t, "creds", "init", dir, "--scale", "240", "--divide", "10"); r.code != 0 || !strings.Contains(r.err, "--installation") {
		t.Fatalf("init exited with %d: %s", r.code, r.err)
	}
	file := filepath.Join(dir, "installation.json")
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name string
		args []string
		code int
		want string
	}{
		{"again", []string{"creds", "init", dir}, int(exitConflict), "never overwritten"},
		{"again, to keep it", []string{"creds", "init", dir, "--keep"}, 0, "left as it is"},
		{"without a directory", []string{"creds", "init"}, int(exitUsage), "DIR"},
		{"copies that no cluster has", []string{"creds", "init", dir + "2", "--replicas", "100"}, int(exitUsage), "replicas"},
		{"a person", []string{"creds", "user", "ann", "--role", "operator", "--state", dir}, 0, "ann may ask as operator"},
		{"the same person", []string{"creds", "user", "ann", "--role", "admin", "--state", dir}, int(exitConflict), "ann"},
		{"a role unheard of", []string{"creds", "user", "bob", "--role", "king", "--state", dir}, int(exitUsage), "viewer, operator and admin"},
		{"a name that is a wildcard", []string{"creds", "user", "*", "--state", dir}, int(exitUsage), "user"},
		{"where there are no keys", []string{"creds", "user", "bob", "--state", t.TempDir()}, int(exitUsage), "operator keys"},
	} {
		if r := command(t, tc.args...); r.code != tc.code || !strings.Contains(r.err, tc.want) {
			t.Errorf("%s: exited with %d: %s; want %d and %q", tc.name, r.code, r.err, tc.code, tc.want)
		}
	}
	if after, err := os.ReadFile(file); err != nil || string(after) != string(before) {
		t.Errorf("the installation was changed, %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "people", "ann.creds")); err != nil {
		t.Error(err)
	}
}

func TestASellerIsMadeKnownOnce(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "site")
	if r := command(t, "creds", "init", dir, "--seller", "gcp", "--seller", "shed"); r.code != 0 {
		t.Fatalf("init exited with %d: %s", r.code, r.err)
	}
	for _, tc := range []struct {
		name string
		args []string
		code int
		want string
	}{
		{"another", []string{"creds", "seller", "vast", "--state", dir}, 0, "give "},
		{"the same", []string{"creds", "seller", "vast", "--state", dir}, int(exitConflict), "belongs to the installation"},
		{"one of the first", []string{"creds", "seller", "gcp", "--state", dir}, int(exitConflict), "belongs to the installation"},
		{"a name that is a wildcard", []string{"creds", "seller", "*", "--state", dir}, int(exitUsage), "sellers"},
		{"where there is no installation", []string{"creds", "seller", "aws", "--state", t.TempDir()}, int(exitUsage), "installation"},
		{"one named twice", []string{"creds", "init", dir + "2", "--seller", "aws", "--seller", "aws"}, int(exitUsage), "twice"},
	} {
		if r := command(t, tc.args...); r.code != tc.code || !strings.Contains(r.err, tc.want) {
			t.Errorf("%s: exited with %d: %s; want %d and %q", tc.name, r.code, r.err, tc.code, tc.want)
		}
	}
	text, err := os.ReadFile(filepath.Join(dir, "installation.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"gcp", "shed", "vast"} {
		if _, err := os.Stat(filepath.Join(dir, "creds", "provider-"+name+".creds")); err != nil {
			t.Error(err)
		}
		if !strings.Contains(string(text), `"`+name+`"`) {
			t.Errorf("the installation does not name %s", name)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "creds", "provider-local.creds")); err == nil {
		t.Error("there are credentials of a seller that nobody named")
	}
}
