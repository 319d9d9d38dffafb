"""The merge once more, from the prose of common/merge/merge.h, in Python's unbounded integers and exact fractions.

It must give the golden bits that test-merge.c holds the C code against, so that those bits are right and not only stable.
"""
import math
import os
import re
import struct
import sys
from fractions import Fraction

MASK = (1 << 64) - 1
ROWS, COLUMNS, VECTOR = 64, 128, 96
MATRIX = ROWS * COLUMNS
TOTAL = MATRIX + VECTOR
KEEP = 512
WEIGHTS = [round(65536 / math.sqrt(1 + s)) for s in range(3)]


class Rng:
    """common/base/rng.h"""

    def __init__(self, seed):
        self.state = seed

    def next(self):
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        return z ^ (z >> 31)

    def below(self, bound):
        limit = MASK - MASK % bound
        value = self.next()
        while value >= limit:
            value = self.next()
        return value % bound


def float32(value):
    return struct.unpack("<f", struct.pack("<f", value))[0]


def fixed(value):
    return round(Fraction(value) * (1 << 32))  # Python rounds ties to even


def unfixed(value):
    return float32(value / 2**32)  # all values here are below 2^53, so only float32 rounds


def toward_zero(numerator, denominator):
    return numerator // denominator if numerator >= 0 else -(-numerator // denominator)


def update(seed):
    """What golden_body() of test-merge.c sends, as {place in the state: fixed-point value}."""
    rng = Rng(seed)
    sent = {}
    for first, columns, tile_rows, tile_columns, blocks in ((0, COLUMNS, 64, 64, 2), (MATRIX, VECTOR, 1, 48, 2)):
        size = tile_rows * tile_columns
        kept = size * KEEP // 4096
        gap = size // kept
        places = []
        codes = []
        for i in range(blocks * kept):
            index = (i % kept) * gap + rng.below(gap)
            column = (i // kept) * tile_columns + index % tile_columns
            places.append(first + index // tile_columns * columns + column)
            codes.append(rng.below(4))
        book = []
        for code in range(4):
            place = (code - 2 if code < 2 else code - 1) * 40000 + seed * 1000
            book.append(fixed(float32((place + rng.below(9999)) * 2.0**-24)))
        sent.update((place, book[code]) for place, code in zip(places, codes))
    return sent


def norm(values):
    return math.isqrt(sum(value * value for value in values))


def lower_median(norms):
    ordered = sorted(value for value in norms if value)
    return ordered[(len(ordered) - 1) // 2] if ordered else 0


def merge(state, updates, staleness, dropped, step_permille):
    norms = [norm(sent.values()) for sent in updates]
    median = lower_median(norms)
    weighted = []
    for sent, size, stale in zip(updates, norms, staleness):
        ratio = 1 << 30 if size <= median else (median << 30) // size
        weighted.append({p: toward_zero(v * ratio * WEIGHTS[stale], 1 << 46) for p, v in sent.items()})
    target = lower_median([norm(sent.values()) for sent in weighted])
    count = len(updates)
    aggregate = {}
    for place in set().union(*weighted):
        column = sorted(sent.get(place, 0) for sent in weighted)
        aggregate[place] = toward_zero(sum(column[dropped : count - dropped]), count - 2 * dropped)
    ratio = (target << 30) // norm(aggregate.values())
    ratio = min(max(ratio, 1 << 30), 2 << 30) * step_permille // 1000
    merged = list(state)
    for place, value in aggregate.items():
        step = toward_zero(value * ratio, 1 << 30)
        if step != 0:
            merged[place] = unfixed(fixed(state[place]) - step)
    return merged


def fingerprint(values):
    hashed = 0xCBF29CE484222325
    for byte in struct.pack(f"<{len(values)}f", *values):
        hashed = ((hashed ^ byte) * 0x100000001B3) & MASK
    return hashed


def main():
    path = os.path.join(os.environ.get("SKEP_SOURCE", "."), "tests/unit/merge/test-merge.c")
    with open(path) as file:
        golden = [int(text, 16) for text in re.findall(r"fingerprint\(parameters\) == 0x([0-9a-f]+)u", file.read())]
    rng = Rng(99)
    state = [(rng.below(1 << 24) - (1 << 23)) * 2.0**-27 for _ in range(TOTAL)]
    updates = [update(seed) for seed in range(11)]
    staleness = [i % 3 for i in range(11)]
    trimmed = merge(state, updates, staleness, 2, 700)
    mean = merge(trimmed, updates, staleness, 0, 700)
    names = ("the state to be merged", "the trimmed mean", "the mean")
    print("1..3")
    failed = len(golden) != 3
    for i, (name, values) in enumerate(zip(names, (state, trimmed, mean))):
        same = i < len(golden) and fingerprint(values) == golden[i]
        failed = failed or not same
        print(f"{'ok' if same else 'not ok'} {i + 1} - {name} has the golden bits, {fingerprint(values):016x}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
