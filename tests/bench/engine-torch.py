#!/usr/bin/python3
"""Our expert of kind ffn against the same one in PyTorch, forward and backward with the gradient of the input: samples a second on one
thread each. The two take turns in short stints and the fastest pass of each counts, so that what else runs on the machine hits both.

  engine-torch.py [--quick]       needs python3-torch and, in $SKEP_BUILD (.), tests/bench/ffn-stint
"""
import os
import subprocess
import sys
import time

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = "1"

import torch  # noqa: E402  (the number of threads is read when it is loaded)

STINT = os.path.join(os.environ.get("SKEP_BUILD", "."), "tests/bench/ffn-stint")


class Ours:
    def __init__(self, dim, batch):
        self.process = subprocess.Popen([STINT, str(dim), str(batch)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def seconds(self, passes):
        """Of the fastest pass."""
        self.process.stdin.write(f"{passes}\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class Theirs:
    def __init__(self, dim, batch):
        self.module = torch.nn.Sequential(torch.nn.LayerNorm(dim), torch.nn.Linear(dim, 4 * dim), torch.nn.GELU(approximate="tanh"),
                                          torch.nn.Linear(4 * dim, dim))
        self.x = torch.randn(batch, dim, requires_grad=True)
        self.dy = torch.randn(batch, dim)
        self.gradients = [self.x, *self.module.parameters()]

    def seconds(self, passes):
        best = float("inf")
        for _ in range(passes):
            start = time.process_time()
            for tensor in self.gradients:
                tensor.grad = None  # zero_grad(set_to_none=True): the fastest way
            self.module(self.x).backward(self.dy)
            best = min(best, time.process_time() - start)
        return best


def compare(dim, batch, turns, passes):
    ours, theirs = Ours(dim, batch), Theirs(dim, batch)
    ours.seconds(1), theirs.seconds(1)  # memory is touched, caches are warm
    pairs = [(ours.seconds(passes), theirs.seconds(passes)) for _ in range(turns)]
    ours.close()
    print(f"engine-torch: d {dim}, batch {batch}: ratio of each turn " + " ".join(f"{t / o:.2f}" for o, t in pairs), file=sys.stderr)
    our_rate, their_rate = (batch / min(times) for times in zip(*pairs))
    print(f"ffn_{dim}_{batch}_torch\t{our_rate:.1f}\tsamples/s\t{their_rate:.1f}\t{our_rate / their_rate:.3f}", flush=True)


def main():
    quick = "--quick" in sys.argv[1:]
    torch.set_num_threads(1)
    torch.manual_seed(1)
    print(f"engine-torch: PyTorch {torch.__version__}, {torch.get_num_threads()} thread", file=sys.stderr)
    compare(1024, 512, *((4, 2) if quick else (15, 2)))
    compare(256, 64, *((10, 20) if quick else (40, 50)))


main()
