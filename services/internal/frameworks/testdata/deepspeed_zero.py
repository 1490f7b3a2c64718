"""DeepSpeed's engine, on CPUs: ZeRO splits the optimizer over two ranks. Started by torchrun."""

import os
import random

import deepspeed
import torch
import torch.distributed as dist

import machine
import task


def save(engine, step):
    """The random numbers of each rank first, since "latest" is what DeepSpeed writes last."""
    tag = f"global_step{step}"
    os.makedirs(os.path.join(machine.CHECKPOINTS, tag), exist_ok=True)
    torch.save({"python": random.getstate(), "torch": torch.get_rng_state()},
               os.path.join(machine.CHECKPOINTS, tag, f"rng_state_{dist.get_rank()}.pth"))
    engine.save_checkpoint(machine.CHECKPOINTS, tag=tag)


def load(engine, path):
    loaded, _ = engine.load_checkpoint(os.path.dirname(path), tag=os.path.basename(path))
    if loaded is None:  # it would go on from zero, and say nothing
        raise SystemExit(f"DeepSpeed finds no checkpoint in {path}")
    rng = os.path.join(path, f"rng_state_{dist.get_rank()}.pth")
    if os.path.exists(rng):
        state = torch.load(rng, weights_only=True)
        random.setstate(state["python"])
        torch.set_rng_state(state["torch"])


def anyone(asked):
    """The signal reaches the ranks at different steps; a save needs all of them at the same."""
    flag = torch.tensor(int(asked))
    dist.all_reduce(flag, op=dist.ReduceOp.MAX)
    return bool(flag)


# DeepSpeed's own collectives for CPUs have the ranks spin while they wait for one another, in shared memory and code that is
# compiled at the start: right for a machine of one's own. Gloo's wait.
deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
deepspeed.init_distributed("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
request = machine.SaveRequest()
task.repeatable()
model = task.language_model()
engine, _, _, _ = deepspeed.initialize(
    model=model,
    model_parameters=model.parameters(),
    config={
        "train_micro_batch_size_per_gpu": task.BATCH,
        "gradient_accumulation_steps": 1,
        "zero_optimization": {"stage": 1, "reduce_bucket_size": 100_000, "allgather_bucket_size": 100_000},
        "optimizer": {"type": "AdamW", "params": {"lr": 3e-3, "torch_adam": True}},
        "scheduler": {"type": "WarmupCosineLR", "params": {"total_num_steps": task.STEPS, "warmup_num_steps": 10}},
        "gradient_clipping": 1.0,
    },
)
torch.manual_seed(task.SEED + 1 + rank)  # from here on dropout differs from rank to rank
if machine.RESUME_FROM:
    load(engine, machine.RESUME_FROM)

length = len(task.batches(0, rank, world))
while engine.global_steps < task.STEPS:
    step = engine.global_steps
    rows = task.batches(step // length, rank, world)[step % length]
    loss = task.loss_of(engine, rows)
    engine.backward(loss)
    engine.step()
    step = engine.global_steps
    machine.tell(step, loss.item(), rank)
    if anyone(request.take()) or step % task.SAVE_EVERY == 0 or step == task.STEPS:
        save(engine, step)
