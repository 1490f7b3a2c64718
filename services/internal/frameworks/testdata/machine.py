"""What a script that can be taken up elsewhere has to do with the machine it is on."""

import json
import os
import signal
import time

CHECKPOINTS = os.environ["SPOTFERRY_CHECKPOINT_DIR"]
RESUME_FROM = os.environ.get("SPOTFERRY_RESUME_FROM") or None  # the restored checkpoint, a directory or a file; empty for a fresh start
PACE = float(os.environ.get("PACE", "0"))  # seconds that a step takes longer, so that there is something to interrupt


class SaveRequest:
    """Set by the signal that the job file names in policy.checkpoint.on_notice."""

    def __init__(self, number=signal.SIGUSR1):
        self.waiting = False
        signal.signal(number, self._heard)

    def _heard(self, *_):
        self.waiting = True

    def take(self):
        """Whether a save was asked for since the last call."""
        waiting, self.waiting = self.waiting, False
        return waiting


def tell(step, loss, rank=0):
    """Says how far training has come, and appends the loss to the evidence, to the last bit."""
    if rank == 0 and (path := os.environ.get("SPOTFERRY_PROGRESS_FILE")):
        with open(path + ".new", "w") as f:
            json.dump({"step": step, "loss": loss}, f)
        os.replace(path + ".new", path)
    if directory := os.environ.get("SPOTFERRY_EVIDENCE_DIR"):
        job = os.environ.get("SPOTFERRY_JOB_ID", "plain")
        row = {"epoch": int(os.environ.get("SPOTFERRY_EPOCH", 0)), "rank": rank, "step": step, "loss": loss}
        with open(os.path.join(directory, f"losses-{job}.jsonl"), "a") as f:
            f.write(json.dumps(row) + "\n")  # floats as repr writes them: nothing is rounded
    time.sleep(PACE)
