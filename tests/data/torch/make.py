#!/usr/bin/python3
"""Writes the recorded PyTorch results beside this file. They were made with Debian 12's python3-torch 1.13.

Inputs are float32; PyTorch computes in float64 and the results are rounded to float32 once, so they are right to 6e-8 of each value
and what a test sees beyond that is the C code's own rounding. The curves are the exception: they are PyTorch in float32, as people run it.
"""
import json
import math
import os
import struct
import sys
from dataclasses import astuple

import numpy
import torch
import torch.nn.functional as F

import skep_torch
from curve import curve
from skep_torch import Config, Trainer, Training, classifier, flat, lm

HERE = os.path.dirname(os.path.abspath(__file__))
GENERATOR = torch.Generator().manual_seed(20)


def write(name, tensors):
    """The published format: u64 size of the JSON header, the header, the data; little-endian."""
    header, data = {}, b""
    for key, values in tensors.items():
        array = numpy.ascontiguousarray(values.detach().numpy() if isinstance(values, torch.Tensor) else values, dtype="<f4")
        assert numpy.isfinite(array).all(), key
        header[key] = {"dtype": "F32", "shape": list(array.shape), "data_offsets": [len(data), len(data) + array.nbytes]}
        data += array.tobytes()
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path = os.path.join(HERE, name + ".safetensors")
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)
    print(f"{os.path.getsize(path):7} {name}.safetensors")


def normal(*shape, size=1.0):
    """Values that float32 holds, for float64 arithmetic."""
    return (torch.randn(*shape, generator=GENERATOR) * size).double()


def uniform(*shape, size):
    return ((torch.rand(*shape, generator=GENERATOR) * 2 - 1) * size).double()


def backward(y, dy, **inputs):
    """{"d" + name: gradient} of sum(y * dy)."""
    gradients = torch.autograd.grad(y, list(inputs.values()), dy)
    return {"d" + name: gradient for name, gradient in zip(inputs, gradients)}


def wanted(tensor):
    return tensor.requires_grad_(True)


# --- operations -----------------------------------------------------------------------------------------------------------------------

def op_norm(then):
    x, gain, bias, dy = wanted(normal(7, 33, size=3)), wanted(normal(33)), wanted(normal(33)), normal(7, 33)
    y = then(F.layer_norm(x, (33,), gain, bias, 1e-5))
    return dict(x=x, gain=gain, bias=bias, dy=dy, y=y, **backward(y, dy, x=x, gain=gain, bias=bias))


def op_gelu():
    x, bias, dy = normal(5, 37, size=3), wanted(normal(37)), normal(5, 37)
    x[0, :4] = torch.tensor([-30.0, 30.0, -6.0, 6.0])
    x = wanted(x)
    y = F.gelu(x + bias, approximate="tanh")
    return dict(x=x, bias=bias, dy=dy, y=y, **backward(y, dy, x=x, bias=bias))


def op_softmax(first=5, scale=0.25, slope=0.5):
    """Row i sees columns 0 .. first + i, and what is `distance` back loses slope * distance."""
    scores, dy = wanted(normal(9, 14, size=8)), normal(9, 14)
    distance = first + torch.arange(9)[:, None] - torch.arange(14)[None, :]
    seen = distance >= 0
    y = (scores * scale - slope * distance).masked_fill(~seen, -math.inf).softmax(-1)
    return dict(settings=numpy.array([first, scale, slope]), x=scores, dy=dy, y=y, **backward(y, dy, x=scores))


def op_cross_entropy(weight=0.25):
    logits, target = wanted(normal(6, 19, size=4)), torch.tensor([0, 18, 7, 7, 3, 11])
    nats = F.cross_entropy(logits, target, reduction="none")
    return dict(settings=numpy.array([numpy.float32(weight)]), x=logits, target=target, logsumexp=logits.logsumexp(-1), nats=nats,
                **backward(weight * nats.sum(), None, x=logits))


def op_linear():
    x, w, dy = wanted(normal(9, 21)), wanted(normal(13, 21)), normal(9, 13)
    y = F.linear(x, w)
    return dict(x=x, w=w, dy=dy, y=y, **backward(y, dy, x=x, w=w))


def op_rows():
    """index_add and index_select; every row of y is a row of x, some twice, some never."""
    x, y, index, weight = normal(8, 5), normal(6, 5), torch.tensor([2, 0, 5, 2, 4, 4, 0, 2]), normal(8)
    once = torch.tensor([3, 0, 5, 1])
    return dict(x=x, y=y, index=index, weight=weight, once=once, scattered=y.index_add(0, index, x), gathered=y[index],
                combined=y.index_add(0, once, x[:4] * weight[:4, None]))


def op_adamw(decay):
    """Five steps with the gradient's norm clipped to 1."""
    training = Training(weight_decay=decay, learning_rate=0.01)
    values, gradients = normal(41), normal(5, 41, size=0.3)
    gradients[3] *= 0.01  # a step that is not clipped
    tensor = torch.nn.Parameter(values.clone())
    optimizer = torch.optim.AdamW([tensor], lr=training.learning_rate, betas=(training.beta1, training.beta2), eps=training.epsilon,
                                  weight_decay=training.weight_decay)
    after = []
    for gradient in gradients:
        tensor.grad = gradient * min(1.0, training.clip / float(gradient.norm()))
        optimizer.step()
        after.append(tensor.detach().clone())
    state = optimizer.state[tensor]
    return dict(training=numpy.array(astuple(training)), x=values, gradients=gradients, after=torch.stack(after),
                first=state["exp_avg"], second=state["exp_avg_sq"])


def operations():
    found = {"norm": op_norm(lambda y: y), "norm_relu": op_norm(F.relu), "gelu": op_gelu(), "softmax": op_softmax(),
             "cross_entropy": op_cross_entropy(), "linear": op_linear(), "rows": op_rows(), "adamw": op_adamw(0.0), "adamw_decay": op_adamw(0.1)}
    write("operations", {f"{op}.{name}": values for op, tensors in found.items() for name, values in tensors.items()})


# --- experts --------------------------------------------------------------------------------------------------------------------------

def random_shard(config, shard):
    return {name: uniform(*shape, size=0.1 if "balance." in name else 0.7) for name, shape in skep_torch.layout(config, shard)}


def experts():
    tensors = {}
    for kind, name in enumerate(skep_torch.EXPERTS):
        config = Config(expert=kind, dim=10, hidden=24)
        parameters = random_shard(config, "ffn.0.0.0")
        x, dy = wanted(normal(7, 10)), normal(7, 10)
        values = wanted(flat(config, "ffn.0.0.0", parameters))
        y = skep_torch.expert(config, skep_torch.unflat(config, "ffn.0.0.0", values), x)
        found = dict(shape=numpy.array([config.dim, config.hidden]), x=x, dy=dy, parameters=values, y=y, **backward(y, dy, x=x, parameters=values))
        tensors.update({f"{name}.{key}": value for key, value in found.items()})
    write("experts", tensors)


# --- models ---------------------------------------------------------------------------------------------------------------------------

SMALL = dict(dim=8, hidden=12, layers=2, rows=3, columns=3, experts_per_token=2)
SMALL_LM = dict(SMALL, vocabulary=11, heads=2, context=9, prefix=3)
SMALL_CLASSIFIER = dict(SMALL, inputs=20, classes=5)
NO_EXPERTS = lambda shard: shard == "trunk"
SOME_EXPERTS = lambda shard: shard not in ("ffn.0.0.1", "ffn.0.2.0", "ffn.0.2.1", "ffn.0.2.2", "ffn.1.1.0")
ALL_EXPERTS = lambda shard: True

# name: the model, which shards are present, does the attention do anything
MODELS = {
    "lm-ends": (lm(**dict(SMALL_LM, layers=1)), NO_EXPERTS, False),
    "lm-attention": (lm(**dict(SMALL_LM, layers=1, dim=16, heads=4, context=80)), NO_EXPERTS, True),
    "lm-dmoe-document": (lm(**dict(SMALL_LM, layers=1, rows_per_token=2)), SOME_EXPERTS, False),
    "lm-dmoe-token": (lm(**dict(SMALL_LM, layers=1, rows_per_token=2, route=1)), SOME_EXPERTS, False),
    "lm-document": (lm(**SMALL_LM), ALL_EXPERTS, True),
    "lm-token": (lm(**dict(SMALL_LM, rows_per_token=3, route=1)), SOME_EXPERTS, True),
    "lm-paper-ffn": (lm(**dict(SMALL_LM, layers=1, rows=2, columns=2, expert=1)), ALL_EXPERTS, True),
    "classifier-ends": (classifier(**dict(SMALL_CLASSIFIER, layers=1)), NO_EXPERTS, False),
    "classifier-ffn": (classifier(**SMALL_CLASSIFIER), SOME_EXPERTS, False),
    "classifier-paper-ffn": (classifier(**dict(SMALL_CLASSIFIER, rows=2, columns=3, expert=1)), ALL_EXPERTS, False),
}
BATCH = 3


def train(config, training, start, records, dtype):
    """What the steps of training see and leave behind."""
    trainer = Trainer(config, training, {shard: {name: t.clone().to(dtype) for name, t in tensors.items()} for shard, tensors in start.items()})
    first = trainer.backward(records[0])
    gradients = {shard: {name: torch.zeros_like(t) if t.grad is None else t.grad.clone() for name, t in tensors.items()}
                 for shard, tensors in trainer.parameters.items()}
    return first, gradients, [trainer.step(batch) for batch in records], trainer.parameters


def model(name):
    config, is_present, attends = MODELS[name]
    training = Training(batch=BATCH)
    start = {shard: random_shard(config, shard) for shard in skep_torch.shards(config) if is_present(shard)}
    if not attends and "layer.0.attention.out" in start["trunk"]:
        start["trunk"]["layer.0.attention.out"].zero_()
    shape = (int(training.steps), BATCH)
    if config.kind == 0:
        records = torch.randint(0, config.vocabulary, shape + (config.context,), generator=GENERATOR)
    else:
        records = torch.cat([torch.randint(0, 256, shape + (config.inputs,), generator=GENERATOR),
                             torch.randint(0, config.classes, shape + (1,), generator=GENERATOR)], -1)
    first, gradients, steps, after = train(config, training, start, records, torch.float64)
    single = train(config, training, start, records, torch.float32)[2]
    for a, b in zip(steps, single):  # a choice that float32's rounding can turn would make the file worthless
        assert all(torch.equal(x, y) for x, y in zip(a.chosen, b.chosen)), name
    each = len(first.logits) // BATCH
    tensors = dict(config=numpy.array(astuple(config)), training=numpy.array(astuple(training)), records=records.flatten(0, 1),
                   loss=torch.stack([s.loss for s in steps]), z=torch.stack([s.z for s in steps]),
                   correct=numpy.array([s.correct for s in steps]), logits=first.logits[each - 1])
    for part, shards in (("start", start), ("gradient", gradients), ("after", after)):
        tensors.update({f"{part}.{shard}": flat(config, shard, values) for shard, values in shards.items()})
    write(name, tensors)


# --- curves ---------------------------------------------------------------------------------------------------------------------------

# Of several seeds those in whose 200 steps no two scores that the gate chooses between come so near to each other that float32's rounding
# could turn the choice: in the classifier the closest are 1e-4 apart. PyTorch in float32 and in float64 then differ by at most 4e-6
# of a loss; where one record of eight takes another expert, by 2e-2 of that step's.
CURVES = {
    "curve-lm": (lm(dim=32, hidden=64, heads=4, layers=2, context=48, prefix=8, rows=2, columns=3, experts_per_token=2),
                 Training(steps=200, batch=4, learning_rate=0.003), 3),
    "curve-classifier": (classifier(expert=1, inputs=64, classes=10, dim=32, hidden=64, layers=4, rows=3, columns=3, experts_per_token=4),
                         Training(steps=200, batch=8, learning_rate=0.0003), 2),
}


def write_curve(name):
    config, training, seed = CURVES[name]
    losses = curve(config, training, seed)
    write(name, dict(config=numpy.array(astuple(config)), training=numpy.array(astuple(training)), seed=numpy.array([seed]),
                     loss=numpy.array(losses)))
    print("       ", " ".join(f"{loss:.3f}" for loss in losses[::20] + losses[-1:]))


def main():
    torch.set_num_threads(1)
    operations()
    experts()
    for name in MODELS:
        model(name)
    for name in CURVES:
        write_curve(name)


if __name__ == "__main__":
    sys.exit(main())
