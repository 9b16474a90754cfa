"""`atoll-track`: a run's figures in TensorBoard, Weights & Biases and MLflow.

The program asks `atoll` for the figures of a run and writes every version once to each tracker,
whatever is killed in between: what a tracker has is read back from the tracker itself. A
coordinator starts it where its config has a section [tracking]. docs/metrics.md says how it is
used.
"""
