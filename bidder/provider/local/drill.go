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

// Reclaim takes machines back. A host does what an entry says once; another id is another entry.
type Reclaim struct {
	ID         string        `json:"id,omitempty"`
	Token      string        `json:"token"`                 // whose machine; "*": every one that can be reclaimed
	Notice     time.Duration `json:"notice,omitempty"`      // control time; 0: no warning
	Withdraw   time.Duration `json:"withdraw,omitempty"`    // after this time the warning is withdrawn
	SaveOffset time.Duration `json:"save_offset,omitempty"` // without a warning: this long into the next save
	SaveWait   time.Duration `json:"save_wait,omitempty"`   // how long to wait for one
}

// WriteDrill replaces the drill of the seller in dir.
func WriteDrill(dir string, d Drill) error {
	if err := write(filepath.Join(dir, controlFile), d); err != nil {
		return fmt.Errorf("writing the drill: %w", err)
	}
	return nil
}

// empty says whether the drill has closed a pool.
func (d Drill) empty(p events.Pool) bool { return slices.Contains(d.Empty, p) }
