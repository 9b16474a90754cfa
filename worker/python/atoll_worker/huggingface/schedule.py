"""The learning rate at a step of the run, as atoll-worker has it (worker/base/schedule.h)."""

import math

from atoll.v1 import run_pb2


def learning_rate(inner: run_pb2.InnerSpec, step: int) -> float:
    """Linear over the warm-up, then half a cosine, "wsd" (Haegele et al., arXiv:2405.18392) or
    constant. `step` counts from 0."""
    peak, least = inner.learning_rate, inner.min_learning_rate
    if step < inner.warmup_steps:
        return peak * (step + 1) / (inner.warmup_steps + 1)
    if inner.decay_steps == 0 or inner.schedule == "constant":
        return peak
    if step >= inner.decay_steps:
        return least
    if inner.schedule == "wsd":
        left = inner.decay_steps - step
        if left >= inner.cooldown_steps:
            return peak
        return least + (1 - math.sqrt(1 - left / inner.cooldown_steps)) * (peak - least)
    done = (step - inner.warmup_steps) / (inner.decay_steps - inner.warmup_steps)
    return least + 0.5 * (1 + math.cos(math.pi * done)) * (peak - least)
