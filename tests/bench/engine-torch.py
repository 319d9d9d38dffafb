#!/usr/bin/python3
"""Our engine against PyTorch, one thread each: an expert of kind ffn forward and backward with the gradient of the input (samples a second),
and whole training steps of the default lm (tokens a second; tests/data/torch/skep_torch.py is the model as one writes it in
PyTorch). The two take turns in short stints of several passes and the fastest stint of each counts, so that what else runs on the
machine hits both. Seconds are processor time; whole stints, because what PyTorch pays now and then (fresh memory) is part of its rate.

  engine-torch.py [--quick]       needs python3-torch and, in $SKEP_BUILD (.), tests/bench/ffn-stint and curve-steps
"""
import os
import subprocess
import sys
import time
from dataclasses import astuple

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = "1"

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../data/torch"))

try:  # only now, for the number of threads is read when it is loaded
    import torch
    from curve import lm_batches
    from skep_torch import Trainer, Training, lm, seed_model
except ImportError as error:
    print(f"engine-torch: nothing to compare with ({error}): install Debian's python3-torch", file=sys.stderr)
    sys.exit(77)

PROGRAMS = os.path.join(os.environ.get("SKEP_BUILD", "."), "tests/bench")


class OurExpert:
    def __init__(self, dim, batch):
        self.process = subprocess.Popen([os.path.join(PROGRAMS, "ffn-stint"), str(dim), str(batch)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def seconds(self, passes):
        """Of one pass."""
        self.process.stdin.write(f"{passes}\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class TheirExpert:
    def __init__(self, dim, batch):
        self.module = torch.nn.Sequential(torch.nn.LayerNorm(dim), torch.nn.Linear(dim, 4 * dim), torch.nn.GELU(approximate="tanh"),
                                          torch.nn.Linear(4 * dim, dim))
        self.x = torch.randn(batch, dim, requires_grad=True)
        self.dy = torch.randn(batch, dim)
        self.gradients = [self.x, *self.module.parameters()]

    def seconds(self, passes):
        start = time.process_time()
        for _ in range(passes):
            for tensor in self.gradients:
                tensor.grad = None  # zero_grad(set_to_none=True): the fastest way
            self.module(self.x).backward(self.dy)
        return (time.process_time() - start) / passes


class OurTraining:
    def __init__(self, config, training):
        self.command = [os.path.join(PROGRAMS, "curve-steps"), "1", *map(repr, astuple(config) + astuple(training))]

    def seconds(self, _):
        """Of one of training.steps steps."""
        steps = subprocess.run(self.command, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
        return sum(float(step.split()[1]) for step in steps) / len(steps)

    def close(self):
        pass


class TheirTraining:
    def __init__(self, config, training):
        self.trainer = Trainer(config, training, seed_model(config, bytes([1]) + bytes(31)))
        self.batches = torch.from_numpy(lm_batches(config, training, 1).astype("int64"))

    def seconds(self, steps):
        start = time.process_time()
        for i in range(steps):
            self.trainer.step(self.batches[i % len(self.batches)])
        return (time.process_time() - start) / steps


def compare(name, unit, amount, ours, theirs, turns, passes):
    """`amount` of the unit are done in one pass."""
    ours.seconds(1), theirs.seconds(1)  # memory is touched, caches are warm
    pairs = [(ours.seconds(passes), theirs.seconds(passes)) for _ in range(turns)]
    ours.close()
    print(f"engine-torch: {name}: ratio of each turn " + " ".join(f"{t / o:.2f}" for o, t in pairs), file=sys.stderr)
    our_rate, their_rate = (amount / min(times) for times in zip(*pairs))
    print(f"{name}\t{our_rate:.1f}\t{unit}/s\t{their_rate:.1f}\t{our_rate / their_rate:.3f}", flush=True)


def compare_experts(dim, batch, turns, passes):
    compare(f"ffn_{dim}_{batch}_torch", "samples", batch, OurExpert(dim, batch), TheirExpert(dim, batch), turns, passes)


def compare_training(turns, passes):
    """The default model and training of a task file."""
    config = lm(dim=128, hidden=512, heads=4, layers=2, context=128, prefix=16, rows=2, columns=4, experts_per_token=2)
    training = Training(steps=passes, batch=2, learning_rate=0.002)
    compare("lm_torch", "tokens", 2 * 127, OurTraining(config, training), TheirTraining(config, training), turns, passes)


def main():
    quick = "--quick" in sys.argv[1:]
    torch.set_num_threads(1)
    torch.manual_seed(1)
    print(f"engine-torch: PyTorch {torch.__version__}, {torch.get_num_threads()} thread", file=sys.stderr)
    compare_experts(1024, 512, *((3, 2) if quick else (15, 2)))
    compare_experts(256, 64, *((10, 20) if quick else (100, 20)))
    compare_training(*((3, 4) if quick else (10, 10)))


main()
