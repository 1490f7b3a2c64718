"""torch.distributed.checkpoint of a model that FSDP shards over two ranks. Started by torchrun."""

import os
import random

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.fsdp import fully_shard

import machine
import task


def save(step, model, optimizer, schedule):
    """The random numbers of each rank first, since what DCP writes last says that all is there."""
    path = os.path.join(machine.CHECKPOINTS, f"step-{step}")
    os.makedirs(path, exist_ok=True)
    torch.save({"python": random.getstate(), "torch": torch.get_rng_state()}, os.path.join(path, f"rng_state_{dist.get_rank()}.pth"))
    dist.barrier()
    weights, moments = get_state_dict(model, optimizer)
    dcp.save({"model": weights, "optimizer": moments, "schedule": schedule.state_dict(), "step": step}, checkpoint_id=path)


def load(path, model, optimizer, schedule):
    """Returns the step that was saved."""
    weights, moments = get_state_dict(model, optimizer)
    state = {"model": weights, "optimizer": moments, "schedule": schedule.state_dict(), "step": 0}
    dcp.load(state, checkpoint_id=path)
    set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
    schedule.load_state_dict(state["schedule"])
    rng = os.path.join(path, f"rng_state_{dist.get_rank()}.pth")
    if os.path.exists(rng):
        state_of = torch.load(rng, weights_only=True)
        random.setstate(state_of["python"])
        torch.set_rng_state(state_of["torch"])
    return state["step"]


def anyone(asked):
    """The signal reaches the ranks at different steps; a save needs all of them at the same."""
    flag = torch.tensor(int(asked))
    dist.all_reduce(flag, op=dist.ReduceOp.MAX)
    return bool(flag)


dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
request = machine.SaveRequest()
task.repeatable()
model = task.language_model()
torch.manual_seed(task.SEED + 1 + rank)  # from here on dropout differs from rank to rank
for layer in model:
    fully_shard(layer)
fully_shard(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, task.STEPS)

step = load(machine.RESUME_FROM, model, optimizer, schedule) if machine.RESUME_FROM else 0
length = len(task.batches(0, rank, world))
while step < task.STEPS:
    rows = task.batches(step // length, rank, world)[step % length]
    loss = task.loss_of(model, rows)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    schedule.step()
    step += 1
    machine.tell(step, loss.item(), rank)
    if anyone(request.take()) or step % task.SAVE_EVERY == 0 or step == task.STEPS:
        save(step, model, optimizer, schedule)
dist.destroy_process_group()
