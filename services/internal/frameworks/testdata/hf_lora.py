"""Hugging Face Trainer with a LoRA adapter of PEFT on a frozen GPT-2."""

import torch
from peft import LoraConfig, get_peft_model
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments

import machine
import task


class Sequences(Dataset):
    def __init__(self):
        self.rows = task.sequences()

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return {"input_ids": self.rows[i], "labels": self.rows[i]}


class Spot(TrainerCallback):
    """Saves when the machine is about to be taken, and tells each loss."""

    def __init__(self):
        self.request = machine.SaveRequest()

    def on_step_end(self, args, state, control, **_):
        control.should_save |= self.request.take()

    def on_log(self, args, state, control, logs=None, **_):
        if "loss" in logs:
            machine.tell(state.global_step, logs["loss"])


task.repeatable()
base = GPT2LMHeadModel(GPT2Config(
    vocab_size=task.VOCABULARY, n_positions=task.LENGTH, n_embd=32, n_layer=2, n_head=2,
    resid_pdrop=0.1, embd_pdrop=0.1, attn_pdrop=0.1, bos_token_id=0, eos_token_id=0,
))
model = get_peft_model(base, LoraConfig(r=8, lora_alpha=16, lora_dropout=0.1, target_modules=["c_attn", "c_proj"], task_type="CAUSAL_LM"))

trainer = Trainer(
    model=model,
    train_dataset=Sequences(),
    callbacks=[Spot()],
    args=TrainingArguments(
        output_dir=machine.CHECKPOINTS,
        max_steps=task.STEPS,
        per_device_train_batch_size=task.BATCH // 2,
        gradient_accumulation_steps=2,
        learning_rate=1e-2,
        lr_scheduler_type="cosine",
        warmup_steps=10,
        logging_steps=1,
        save_steps=task.SAVE_EVERY,
        save_total_limit=2,
        seed=task.SEED,
        use_cpu=True,
        report_to=[],
        disable_tqdm=True,
    ),
)
trainer.train(resume_from_checkpoint=machine.RESUME_FROM)
