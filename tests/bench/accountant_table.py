"""Holds Atoll's privacy accountant against dp-accounting, an independent one.

    PYTHON tests/bench/accountant_table.py --program build/release/tests/accountant_table

PYTHON is one that has dp-accounting (PyPI). Prints the table of docs/privacy.md, with both, and
ends with 1 where they differ by more than a hundredth. dp-accounting has the two bounds of which
Atoll takes the smaller one, order by order: the Gaussian mechanism, of a party whose updates are
zeros in the other run, and draws without replacement, of one whose place another takes, which may
change a sum by twice as much.
"""

import argparse
import itertools
import subprocess
import sys

NOISES = (1, 2, 4, 8)
SAMPLINGS = (1, 0.2, 0.02, 0.005)
ROUNDS = (10, 50, 100, 500)
DELTA = 1e-5
PARTIES = 1_000_000  # of whom a share is drawn; the bound depends on the share alone
ORDERS = ([tenth / 10 for tenth in range(11, 110)] + list(range(11, 64)) +
          [64, 80, 96, 128, 192, 256, 384, 512, 768, 1024])


def of_round(rdp, event, relation):
    """Renyi differential privacy of one event at each order."""
    accountant = rdp.RdpAccountant(ORDERS, neighboring_relation=relation)
    accountant.compose(event)
    return accountant._rdp  # pylint: disable=protected-access


def theirs(noise, sampling, rounds):
    from dp_accounting import dp_event
    from dp_accounting.rdp import rdp_privacy_accountant as rdp
    relations = rdp.NeighborRel
    spent = of_round(rdp, dp_event.GaussianDpEvent(noise), relations.ADD_OR_REMOVE_ONE)
    if sampling < 1:
        drawn = dp_event.SampledWithoutReplacementDpEvent(
            PARTIES, round(sampling * PARTIES), dp_event.GaussianDpEvent(noise / 2))
        other = of_round(rdp, drawn, relations.REPLACE_ONE)
        spent = [min(one, two) for one, two in zip(spent, other)]
    return rdp.compute_epsilon(ORDERS, [rounds * one for one in spent], DELTA)[0]


def ours(program, grid):
    lines = "".join(f"{noise} {sampling} {rounds} {DELTA}\n" for noise, sampling, rounds in grid)
    said = subprocess.run([program], input=lines, capture_output=True, text=True, check=True)
    return [float(line) for line in said.stdout.split()]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", required=True)
    options = parser.parse_args()
    grid = list(itertools.product(NOISES, SAMPLINGS, ROUNDS))
    found = dict(zip(grid, ours(options.program, grid)))
    print("| noise | sampling | " + " | ".join(f"{rounds} rounds" for rounds in ROUNDS) + " |")
    print("| --- | --- |" + " --- |" * len(ROUNDS))
    worst = 0.0
    for noise, sampling in itertools.product(NOISES, SAMPLINGS):
        cells = []
        for rounds in ROUNDS:
            own, other = found[noise, sampling, rounds], theirs(noise, sampling, rounds)
            worst = max(worst, abs(own / other - 1))
            cells.append(f"{own:.3g} ({other:.3g})")
        print(f"| {noise} | {sampling} | " + " | ".join(cells) + " |")
    print(f"the largest difference: {100 * worst:.2g} %")
    return 0 if worst <= 0.01 else 1


if __name__ == "__main__":
    sys.exit(main())
