#!/usr/bin/python3
"""Writes a TorchScript file and its data: an image classifier that atoll-worker trains as it is.

    make_torchscript.py FOLDER        makes FOLDER/model.pt and FOLDER/data/{images,labels}.npy

The file's forward takes a batch of the arrays, by their names, and gives the loss. Needs
python3-torch; training needs neither it nor Python.
"""

import os
import sys

import numpy as np
import torch


class Classifier(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.features = torch.nn.Sequential(
            torch.nn.Conv2d(1, 8, 3, padding=1), torch.nn.ReLU(), torch.nn.MaxPool2d(2))
        self.head = torch.nn.Linear(8 * 6 * 6, 10)

    def forward(self, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        logits = self.head(self.features(images).flatten(1))
        return torch.nn.functional.cross_entropy(logits, labels)


def main(folder):
    os.makedirs(os.path.join(folder, "data"), exist_ok=True)
    torch.manual_seed(7)
    # Ten random patterns; an image is one of them with noise.
    labels = torch.randint(10, (4500,))
    images = torch.randn(10, 1, 12, 12)[labels] + 1.5 * torch.randn(len(labels), 1, 12, 12)
    np.save(os.path.join(folder, "data", "images.npy"), images.numpy())
    np.save(os.path.join(folder, "data", "labels.npy"), labels.numpy())
    torch.jit.script(Classifier()).save(os.path.join(folder, "model.pt"))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
