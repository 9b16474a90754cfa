#!/usr/bin/python3
"""A linear model of 64 inputs, learned by gradient descent with numpy alone.

Every peer makes the same 4096 samples of a hidden truth with noise; the last 512 are held out.
"""

import hashlib

import numpy as np

import atoll_worker

TRAINED, HELD_OUT, INPUTS = 3584, 512, 64

generator = np.random.default_rng(7)
x = generator.standard_normal((TRAINED + HELD_OUT, INPUTS), np.float32)
truth = generator.standard_normal(INPUTS).astype(np.float32)
y = x @ truth + 3 + 0.1 * generator.standard_normal(len(x)).astype(np.float32)

weight, bias = np.zeros(INPUTS, np.float32), np.zeros(1, np.float32)


def held_out_loss(first, end):
    part = slice(TRAINED + first, TRAINED + end)
    return np.sum((x[part] @ weight + bias - y[part]) ** 2)


with atoll_worker.connect() as run:
    digest = hashlib.sha256(x.tobytes() + y.tobytes()).digest()
    rate = run.spec.inner.learning_rate
    for round in run.rounds(atoll_worker.Arrays({"weight": weight, "bias": bias}),
                            data_digest=digest, samples_a_pass=TRAINED,
                            evaluate=held_out_loss, held_out=HELD_OUT):
        for step in round:
            rows = step.rows(TRAINED)
            error = x[rows] @ weight + bias - y[rows]
            weight -= rate * 2 * x[rows].T @ error / len(rows)
            bias -= rate * 2 * np.mean(error)
            round.report(np.mean(error ** 2))
