#!/usr/bin/python3
"""A small image classifier in PyTorch: which of ten blurred shapes a 12 x 12 image shows.

Every peer makes the same images, a noisy copy of one of ten random patterns each; nothing is
downloaded. The last 500 are held out.
"""

import hashlib

import torch

import atoll_worker
from atoll_worker.torch import attach

TRAINED, HELD_OUT = 4000, 500

torch.manual_seed(7)
labels = torch.randint(10, (TRAINED + HELD_OUT,))
images = torch.randn(10, 1, 12, 12)[labels] + 1.5 * torch.randn(len(labels), 1, 12, 12)

model = torch.nn.Sequential(
    torch.nn.Conv2d(1, 8, 3, padding=1), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
    torch.nn.Flatten(), torch.nn.Linear(8 * 6 * 6, 10))
loss_of = torch.nn.CrossEntropyLoss()


@torch.no_grad()
def held_out_loss(first, end):
    part = slice(TRAINED + first, TRAINED + end)
    return loss_of(model(images[part]), labels[part]).item() * (end - first)


with atoll_worker.connect() as run:
    torch.set_num_threads(run.threads or 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=run.spec.inner.learning_rate)
    digest = hashlib.sha256(images.numpy().tobytes() + labels.numpy().tobytes()).digest()
    for round in run.rounds(attach(model), data_digest=digest, samples_a_pass=TRAINED,
                            evaluate=held_out_loss, held_out=HELD_OUT):
        for step in round:
            rows = torch.from_numpy(step.rows(TRAINED))
            loss = loss_of(model(images[rows]), labels[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            round.report(loss.item())
