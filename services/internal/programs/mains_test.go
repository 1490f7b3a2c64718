package programs

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"errors"

	"github.com/spotferry/spotferry/services/internal/process"
)

// Every program has a folder whose main is that program and nothing else.
func TestEveryProgramHasItsMain(t *testing.T) {
	t.Parallel()
	for _, p := range All() {
		b, err := os.ReadFile(filepath.Join("..", "..", p.Name, "main.go"))
		if err != nil {
			t.Error(err)
			continue
		}
		with := ""
		if p.Name == "gateway" {
			with = ", google(), azures()" // their SDKs are linked nowhere else
		}
		if want := fmt.Sprintf("func main() { programs.Main(%q%s) }\n", p.Name, with); !strings.HasSuffix(string(b), want) {
			t.Errorf("services/%s/main.go does not end with %q", p.Name, want)
		}
	}
}

func TestAProgramSaysWhatItMisses(t *testing.T) {
	t.Parallel()
	installation := filepath.Join(t.TempDir(), "installation.json")
	for _, tc := range []struct {
		name, program string
		args          []string
		want          string
	}{
		{"no installation", "watcher", []string{"--creds", "x"}, "--installation is missing"},
		{"no credentials", "ledger", []string{"--installation", installation}, "--creds is missing"},
		{"an installation that is not there", "gateway", []string{"--installation", installation, "--creds", "x"}, "no installation"},
		{"a bus without a port", "bus", []string{"--installation", installation, "--listen", "here"}, "no installation"},
		{"a level unheard of", "bidder", []string{"--installation", installation, "--creds", "x", "--log-level", "loud"}, "loud"},
		{"a flag unheard of", "console", []string{"--colour"}, "colour"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			err := Named(tc.program).Run(t.Context(), tc.args, io.Discard)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Run = %v, want %q", err, tc.want)
			}
		})
	}
	if _, _, err := address("here"); !errors.Is(err, process.ErrUsage) {
		t.Errorf("address = %v", err)
	}
	if _, err := command("relative words", nil); !errors.Is(err, process.ErrUsage) {
		t.Errorf("command = %v", err)
	}
}
