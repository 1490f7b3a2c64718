package rehearse

import (
	"fmt"
	"time"

	"github.com/spotferry/spotferry/checkpoint/framework"
)

// Some layouts number their saves and tell no step: the third checkpoint is
// checkpoint_2, whatever step it is of. The system can only compare numbers, so
// that a trainer that begins anew at step 1 looks as if it went on from number 2.
// What the trainer told around a save shows the step that it is of.

// doubt is how long a save may have been under way before anything is known of it,
// besides what is measured: it is looked for now and then, and must be still a while.
const doubt = 3 * time.Second

// savedAtLeast is a step that a checkpoint must be of, by what its trainer had told
// when the save can have begun at the earliest; 0: nothing is known.
func (j judge) savedAtLeast(c Commit) (step int64) {
	before := c.At.Add(-time.Duration(c.SaveMS+c.UploadMS)*time.Millisecond - doubt)
	for _, t := range j.life(c.Epoch).Told {
		if !t.At.After(before) {
			step = max(step, t.Step)
		}
	}
	return step
}

// ordinal says whether checkpoints are numbered by saves and not by steps.
func (j judge) ordinal() bool {
	for _, c := range j.History.Commits {
		if j.savedAtLeast(c) > 2*c.Checkpoint.Step+20 {
			return true
		}
	}
	return false
}

// restored is the commit that a life goes on from.
func (j judge) restored(l Life) (found Commit, ok bool) {
	for _, c := range j.History.Commits {
		if c.Epoch < l.Epoch && c.Checkpoint.Step == l.From {
			found, ok = c, true
		}
	}
	return found, ok
}

// beginsAnew finds a trainer that begins anew although the numbers of its
// checkpoints do not show it.
func (j judge) beginsAnew() (Verdict, bool) {
	if !j.ordinal() {
		return Verdict{}, false
	}
	for _, l := range j.Lives {
		c, ok := j.restored(l)
		told := ordered(l.Told)
		if !ok || !l.Resumed || len(told) == 0 {
			continue
		}
		if least := j.savedAtLeast(c); told[0].Step < least {
			detail := fmt.Sprintf("the checkpoint restored was written at step %d or later, but the trainer's first step is %d", least, told[0].Step)
			return j.forgotten(detail, framework.Resuming(j.framework(), j.Spec.Run)), true
		}
	}
	return Verdict{}, false
}
