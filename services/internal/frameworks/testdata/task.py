"""A small thing to learn, with everything that makes a run hard to repeat: dropout and shuffling."""

import os
import random

import torch
from torch import nn

VOCABULARY, LENGTH, SAMPLES, BATCH = 64, 16, 96, 4  # 24 batches make an epoch, or 12 on two ranks
STEPS = int(os.environ.get("STEPS", "240"))
SAVE_EVERY = 8
SEED = 7


def repeatable():
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    random.seed(SEED)
    torch.manual_seed(SEED)


def sequences():
    """Tokens that mostly follow from the one before."""
    g = torch.Generator().manual_seed(1)
    rows = torch.randint(VOCABULARY, (SAMPLES, 1), generator=g)
    while rows.shape[1] < LENGTH:
        surprise = torch.randint(VOCABULARY, (SAMPLES, 1), generator=g) * (torch.rand(SAMPLES, 1, generator=g) < 0.1)
        rows = torch.cat([rows, (rows[:, -1:] * 5 + 3 + surprise) % VOCABULARY], dim=1)
    return rows


def batches(epoch, rank=0, world=1):
    """The batches of an epoch. Their order is a function of the seed and the
    epoch, so that epoch and position are all of it that has to be saved."""
    order = torch.randperm(SAMPLES, generator=torch.Generator().manual_seed(SEED + epoch))
    return list(sequences()[order[rank::world]].split(BATCH))


def language_model():
    return nn.Sequential(
        nn.Embedding(VOCABULARY, 32),
        nn.TransformerEncoderLayer(32, 2, 64, dropout=0.1, batch_first=True, norm_first=True),
        nn.Linear(32, VOCABULARY),
    )


def loss_of(model, rows):
    """Each token is told from the one before it alone: attention sees no other."""
    seen, wanted = rows[:, :-1], rows[:, 1:]
    logits = model(seen)
    return nn.functional.cross_entropy(logits.flatten(0, 1).float(), wanted.flatten())
