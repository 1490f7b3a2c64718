package framework

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
)

// megatron is the layout of Megatron-LM: iter_0000123/, with mp_rank_* or with
// torch's shards, common.pt and metadata.json; and the tracker, which rank 0
// writes after a barrier when all ranks have finished, by truncating it first.
// Read in megatron/training/checkpointing.py.
func megatron() layout {
	return layout{
		name: "megatron",
		find: func(_ *adapter, root *os.Root, names []string) ([]Candidate, error) {
			return numbered(root, ".", names, iteration), nil
		},
		claims: func(_ *os.Root, names []string, found []Candidate) bool {
			for _, n := range names {
				if n == tracker {
					return true
				}
			}
			return len(found) > 0
		},
		check:   checkMegatron,
		pointer: tracker,
		once:    writtenOnce,
		finish: func(_ *adapter, root *os.Root, name string) (string, error) {
			m := iteration.FindStringSubmatch(name)
			if m == nil {
				return "", fmt.Errorf("%q is not an iteration", name)
			}
			if err := exists(root, name); err != nil {
				return "", err
			}
			return name, writeMarker(root, tracker, strconv.FormatInt(number(m[1]), 10))
		},
		signal: func(a *adapter) (string, string) {
			on, known := a.answers(`exit[_-]signal[_-]handler`)
			if known && !on {
				return "", "Megatron dies of SIGTERM unless it is started with --exit-signal-handler"
			}
			return "SIGTERM", "with --exit-signal-handler, Megatron saves on SIGTERM at the end of its iteration"
		},
	}
}

const tracker = "latest_checkpointed_iteration.txt"

var (
	iteration   = regexp.MustCompile(`^iter_(\d{7,})$`)
	megatronOwn = regexp.MustCompile(`^(common\.pt|metadata\.json|\.metadata)$|\.distcp$`)
	legacyRank  = regexp.MustCompile(`^mp_rank_[^/]+/model_(optim_rng|rng)\.pt$`)
)

func checkMegatron(s *sight) (string, error) {
	if own := s.files(megatronOwn); len(own) > 0 {
		for _, name := range []string{".metadata", "metadata.json", "common.pt"} {
			if _, ok := s.file(name); !ok {
				return fmt.Sprintf("%q is not there yet", s.in+"/"+name), nil
			}
		}
	} else if len(s.files(legacyRank)) == 0 {
		return "no rank's model is there yet", nil
	}
	text, _, err := readMarker(s.root, tracker)
	if err != nil {
		return "", err
	}
	// Empty is what a crash while it was written leaves; whichever it would have
	// named is whole, but which that is it does not say.
	if n, err := strconv.ParseInt(text, 10, 64); err != nil || n < s.c.Step {
		return fmt.Sprintf("%s is %q, and not %d yet", tracker, text, s.c.Step), nil
	}
	return "", nil
}
