#!/usr/bin/env python3
"""transformers.Trainer in an Atoll run: the script keeps its data, optimiser and schedule.

MODEL is a folder of save_pretrained, TEXT a file of plain text: both are named in the environment.
"""

import os

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, Trainer, TrainingArguments

import atoll_worker
from atoll_worker.callbacks import AtollCallback

ROW = 128


class Rows(torch.utils.data.Dataset):
    """The text as rows of ROW tokens."""

    def __init__(self, folder, path):
        with open(path, encoding="utf-8") as source:
            ids = AutoTokenizer.from_pretrained(folder)(source.read())["input_ids"]
        self.rows = torch.tensor(ids[:len(ids) // ROW * ROW]).view(-1, ROW)

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return {"input_ids": self.rows[index], "labels": self.rows[index]}


with atoll_worker.connect() as run:
    torch.set_num_threads(run.threads or 1)
    model = AutoModelForCausalLM.from_pretrained(os.environ["MODEL"], dtype=torch.float32)
    arguments = TrainingArguments(
        output_dir=run.state_path + ".trainer", max_steps=run.spec.rounds * run.spec.inner.steps,
        per_device_train_batch_size=run.spec.inner.batch, save_strategy="no", report_to=[],
        learning_rate=run.spec.inner.learning_rate, disable_tqdm=True, logging_strategy="no")
    rows = Rows(os.environ["MODEL"], os.environ["TEXT"])
    Trainer(model=model, args=arguments, train_dataset=rows,
            callbacks=[AtollCallback(run)]).train()
