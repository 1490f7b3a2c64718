"""Takes the state of the random numbers out of a restored checkpoint, for a run that must then go wrong."""

import glob
import os
import sys

import torch

if len(sys.argv) > 1 and sys.argv[1]:
    within = sys.argv[1]
    taken = glob.glob(os.path.join(within, "rng_state*.pth"))
    for path in taken:
        os.remove(path)
    if within.endswith(".ckpt"):
        checkpoint = torch.load(within, weights_only=True)
        if checkpoint["callbacks"].pop("RandomState", None):
            torch.save(checkpoint, within)
            taken.append(within)
    if not taken:
        sys.exit(f"{within} holds no state of random numbers")
    print("forgot", *sorted(map(os.path.basename, taken)))
