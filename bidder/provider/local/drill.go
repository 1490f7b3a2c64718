package local

import (
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/spotferry/spotferry/events"
)

// controlFile is where a drill is, in the seller's directory.
const controlFile = "control.json"

// Drill is what a person, or a test, makes the market do besides what it does by
// itself. It is a file that the seller and all hosts look at.
type Drill struct {
	Reclaim []Reclaim     `json:"reclaim,omitempty"`
	Empty   []events.Pool `json:"empty,omitempty"` // pools that sell nothing while this stands
}

// Reclaim takes machines back. A host does what an entry says once; another id is
// another entry. Times are control time, in seconds, for people who write the file.
type Reclaim struct {
	ID          string  `json:"id,omitempty"`
	Token       string  `json:"token"`                   // whose machine; "*": every one that can be reclaimed
	NoticeS     float64 `json:"notice_s,omitempty"`      // 0: no warning
	WithdrawS   float64 `json:"withdraw_s,omitempty"`    // the warning is withdrawn after this time
	SaveOffsetS float64 `json:"save_offset_s,omitempty"` // without a warning: this long into the next save
	SaveWaitS   float64 `json:"save_wait_s,omitempty"`   // how long to wait for one; 30
}

func control(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// WriteDrill replaces the drill of the seller in dir.
func WriteDrill(dir string, d Drill) error {
	if err := write(filepath.Join(dir, controlFile), d); err != nil {
		return fmt.Errorf("writing the drill: %w", err)
	}
	return nil
}

// empty says whether the drill has closed a pool.
func (d Drill) empty(p events.Pool) bool { return slices.Contains(d.Empty, p) }
