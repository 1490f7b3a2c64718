// Package rehearse takes a job's machine away on purpose, before real money is
// at stake, and judges whether the job goes on rightly.
//
// It drives the real system, not a second one: a private installation sells
// machines that are processes of this one, its agent runs the user's own script,
// and the seller reclaims, once with a notice and once without. What the trainer
// tells of its steps and losses is followed on the machine's disk; steps that are
// trained again after a move are compared with what was told of them before.
//
// Deciding and judging are pure: Story says what to do next from what has been
// Seen, Compare and Judge read a Run. Rehearsal carries it out. What was measured
// on the way is a Record, which plans take in place of what they would assume.
//
// It does not judge how well a job trains, and it does not mend scripts: it says
// what was seen, why that matters, and what to change.
package rehearse
