package local

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/spotferry/spotferry/bidder/trace"
)

// Config says where a Seller keeps its machines and what it starts on them.
type Config struct {
	Dir         string           // absolute; everything of the seller is below it
	Exe         string           // absolute path of the program that runs hosts; see KeepExecutable
	HostArgs    []string         // its arguments; "--dir DIR" is appended. It must call RunHost
	AgentArgs   []string         // the agent's whole command line, run on every machine
	Market      trace.Spec       // hosts open the same one
	Clock       trace.Clock      //
	EvidenceDir string           // absolute; where meter.jsonl and kills.jsonl are appended, "" for nowhere
	Env         []string         // what machines see of the environment; nil: a known few of this process's
	OfferTTL    time.Duration    // control time for which an offer may be bought; 60 s
	Now         func() time.Time // control time; time.Now
	Log         *zap.Logger      // none: silence
}

// Validate says which field cannot be used and what to give instead.
func (c Config) Validate() error {
	var errs []error
	refuse := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf("local seller: "+format, args...))
		}
	}
	refuse(!filepath.IsAbs(c.Dir), "Dir is %q: give an absolute path", c.Dir)
	refuse(!filepath.IsAbs(c.Exe), "Exe is %q: give the absolute path of a program that stays, such as KeepExecutable makes", c.Exe)
	refuse(len(c.AgentArgs) == 0, "AgentArgs is empty: give the agent's command line")
	refuse(c.EvidenceDir != "" && !filepath.IsAbs(c.EvidenceDir), "EvidenceDir is %q: give an absolute path, or nothing", c.EvidenceDir)
	refuse(c.OfferTTL < 0, "OfferTTL is %v: give a duration from 1s", c.OfferTTL)
	if err := c.Market.Validate(); err != nil {
		errs = append(errs, err)
	}
	if err := c.Clock.Validate(); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (c Config) withDefaults() Config {
	if c.OfferTTL == 0 {
		c.OfferTTL = time.Minute
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = zap.NewNop()
	}
	if c.Env == nil {
		c.Env = machineEnv(os.Environ())
	}
	return c
}

// inherited are the variables of the control plane's environment that a machine
// gets: what makes programs run, where a drill puts faults of the machine, and
// nothing that could be a key of ours.
var (
	inherited         = []string{"PATH", "HOME", "USER", "LOGNAME", "LANG", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "SSL_CERT_FILE", "SSL_CERT_DIR", "GOCOVERDIR", "SPOTFERRY_KERNEL_LOG", "SPOTFERRY_NVIDIA_SMI"}
	inheritedPrefixes = []string{"LC_", "CUDA", "NVIDIA_"}
)

func machineEnv(all []string) []string {
	out := []string{}
	for _, v := range all {
		name, _, _ := strings.Cut(v, "=")
		if slices.Contains(inherited, name) || slices.ContainsFunc(inheritedPrefixes, func(p string) bool { return strings.HasPrefix(name, p) }) {
			out = append(out, v)
		}
	}
	return out
}
