"""The models of common/model once more, in PyTorch with its automatic derivatives, from the prose of the headers: model.h, expert.h,
layout.h, train.h. Nothing here is shared with the C code, so that agreement says something.

Parameters are {shard: {tensor: torch.Tensor}}, shards "trunk" and "ffn.<layer>.<row>.<column>". An expert that is not in the dictionary is
a missing one.
"""
import math
from dataclasses import dataclass, fields

import numpy
import torch
import torch.nn.functional as F

KINDS = ("lm", "classifier")
EXPERTS = ("ffn", "paper_ffn")
ROUTES = ("document", "token")


@dataclass
class Config:
    """wire/model-config.h, in the order in which a recorded file holds it."""
    kind: int = 0
    expert: int = 0
    inputs: int = 0
    classes: int = 0
    vocabulary: int = 0
    dim: int = 0
    hidden: int = 0
    heads: int = 0
    layers: int = 1
    context: int = 1
    prefix: int = 0
    rows: int = 1
    columns: int = 1
    experts_per_token: int = 1
    rows_per_token: int = 1
    route: int = 0


@dataclass
class Training:
    """wire/manifest.h, struct skep_training_config: the part that steps need, in the order of a recorded file."""
    steps: float = 5
    batch: float = 2
    learning_rate: float = 0.01
    beta1: float = 0.9
    beta2: float = 0.95
    epsilon: float = 1e-8
    weight_decay: float = 0.1
    clip: float = 1.0
    z_loss: float = 0.001
    balance_step: float = 0.001

    def __post_init__(self):
        for field in fields(self):  # what float32 makes of it, for the files hold float32
            setattr(self, field.name, float(numpy.float32(getattr(self, field.name))))


def lm(**settings):
    return Config(**dict(dict(vocabulary=256, rows_per_token=1), **settings))


def classifier(**settings):
    """A record is what a token is in an lm."""
    return Config(**dict(dict(kind=1, context=1, route=1, rows_per_token=settings["rows"]), **settings))


# --- common/model/layout.h -----------------------------------------------------------------------------------------------------------

def expert_layout(config):
    d, h = config.dim, config.hidden
    if EXPERTS[config.expert] == "ffn":
        return [("norm.gain", (d,)), ("norm.bias", (d,)), ("up.weight", (h, d)), ("up.bias", (h,)), ("down.weight", (d, h)), ("down.bias", (d,))]
    return [("first.weight", (h, d)), ("first.bias", (h,)), ("norm1.gain", (h,)), ("norm1.bias", (h,)),
            ("second.weight", (h, h)), ("second.bias", (h,)), ("norm2.gain", (h,)), ("norm2.bias", (h,)),
            ("third.weight", (d, h)), ("third.bias", (d,))]


def trunk_layout(config):
    d = config.dim
    is_lm = KINDS[config.kind] == "lm"
    if is_lm:
        tensors = [("embed.token", (config.vocabulary, d)), ("embed.position", (config.context, d))]
    else:
        tensors = [("embed.weight", (d, config.inputs)), ("embed.bias", (d,))]
    for l in range(config.layers):
        tensors += [(f"layer.{l}.norm.gain", (d,)), (f"layer.{l}.norm.bias", (d,))]
        if is_lm:
            tensors += [(f"layer.{l}.attention.qkv", (3 * d, d)), (f"layer.{l}.attention.out", (d, d))]
        tensors += [(f"layer.{l}.gate.row", (config.rows, d)), (f"layer.{l}.gate.column", (config.columns, d)),
                    (f"layer.{l}.balance.row", (config.rows,)), (f"layer.{l}.balance.column", (config.columns,))]
    tensors += [("final.norm.gain", (d,)), ("final.norm.bias", (d,))]
    if not is_lm:
        tensors += [("head.weight", (config.classes, d)), ("head.bias", (config.classes,))]
    return tensors


def layout(config, shard):
    return trunk_layout(config) if shard == "trunk" else expert_layout(config)


def shards(config):
    return ["trunk"] + [f"ffn.{l}.{r}.{c}" for l in range(config.layers) for r in range(config.rows) for c in range(config.columns)]


def flat(config, shard, tensors):
    return torch.cat([tensors[name].detach().reshape(-1) for name, _ in layout(config, shard)])


def unflat(config, shard, values):
    tensors, at = {}, 0
    for name, shape in layout(config, shard):
        count = math.prod(shape)
        tensors[name] = values[at:at + count].reshape(shape)
        at += count
    return tensors


# --- common/base/rng.h and the weights of version 0 -----------------------------------------------------------------------------------

MASK = (1 << 64) - 1
GAMMA = 0x9E3779B97F4A7C15


class Rng:
    def __init__(self, seed):
        self.state = seed

    @classmethod
    def of_bytes(cls, data):
        value = 0xCBF29CE484222325
        for byte in data:
            value = ((value ^ byte) * 0x100000001B3) & MASK
        rng = cls(value)
        rng.next()
        return rng

    def next(self):
        return int(self.many(1)[0])

    def many(self, count):
        """The next `count` numbers at once: SplitMix64's state is a counter."""
        with numpy.errstate(over="ignore"):
            z = numpy.uint64(self.state) + numpy.arange(1, count + 1, dtype=numpy.uint64) * numpy.uint64(GAMMA)
            self.state = (self.state + count * GAMMA) & MASK
            z = (z ^ (z >> numpy.uint64(30))) * numpy.uint64(0xBF58476D1CE4E5B9)
            z = (z ^ (z >> numpy.uint64(27))) * numpy.uint64(0x94D049BB133111EB)
            return z ^ (z >> numpy.uint64(31))

    def below(self, bound, count):
        """The next `count` numbers below `bound`."""
        limit = MASK - MASK % bound
        found = numpy.empty(0, dtype=numpy.uint64)
        while len(found) < count:
            drawn = self.many(count - len(found))
            found = numpy.concatenate([found, drawn[drawn < numpy.uint64(limit)]])
        return found % numpy.uint64(bound)


def variance_divisor(config, name, shape):
    """1 / n is the variance of a drawn tensor."""
    if name in ("embed.token", "embed.position"):
        return 2500
    writes_to_stream = name.endswith("attention.out") or name in ("down.weight", "third.weight")
    return shape[1] * (2 * config.layers if writes_to_stream else 1)


def seed_shard(config, shard, seed):
    tensors = {}
    for name, shape in layout(config, shard):
        if len(shape) == 1:
            tensors[name] = torch.full(shape, 1.0 if name.endswith("gain") else 0.0)
            continue
        rng = Rng.of_bytes(seed + f"{shard}/{name}".encode())
        a = 2 * math.isqrt(3 * (MASK // variance_divisor(config, name, shape) // 4))
        drawn = rng.below(2 * a + 1, math.prod(shape)).astype(numpy.int64) - a
        tensors[name] = torch.from_numpy((drawn.astype(numpy.float32) * numpy.float32(2.0 ** -32)).reshape(shape))
    return tensors


def seed_model(config, seed):
    return {shard: seed_shard(config, shard, seed) for shard in shards(config)}


# --- common/model/expert.h ------------------------------------------------------------------------------------------------------------

def norm(x, gain, bias):
    return F.layer_norm(x, (x.shape[-1],), gain, bias, 1e-5)


def expert(config, p, x):
    if EXPERTS[config.expert] == "ffn":
        x = norm(x, p["norm.gain"], p["norm.bias"])
        return F.linear(F.gelu(F.linear(x, p["up.weight"], p["up.bias"]), approximate="tanh"), p["down.weight"], p["down.bias"])
    a = F.relu(norm(F.linear(x, p["first.weight"], p["first.bias"]), p["norm1.gain"], p["norm1.bias"]))
    b = F.relu(norm(F.linear(a, p["second.weight"], p["second.bias"]), p["norm2.gain"], p["norm2.bias"]))
    return F.linear(b, p["third.weight"], p["third.bias"])


# --- common/model/model.h -------------------------------------------------------------------------------------------------------------

def attention(config, p, l, x):
    """x [B, T, d] -> out(attention(norm(x)))."""
    batch, length, d = x.shape
    qkv = F.linear(norm(x, p[f"layer.{l}.norm.gain"], p[f"layer.{l}.norm.bias"]), p[f"layer.{l}.attention.qkv"])
    q, k, v = (part.reshape(batch, length, config.heads, -1).transpose(1, 2) for part in qkv.split(d, -1))
    place = torch.arange(length)
    distance = place[:, None] - place[None, :]
    slopes = 2.0 ** (-8.0 * torch.arange(config.heads, dtype=torch.float64) / config.heads)
    bias = (-slopes[:, None, None] * distance).masked_fill(distance < 0, -math.inf).to(x.dtype)
    scores = q @ k.transpose(-1, -2) / math.sqrt(d // config.heads) + bias
    attended = (scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, length, d)
    return F.linear(attended, p[f"layer.{l}.attention.out"])


def keep_best(scores, allowed, most):
    """Of the last dimension, true for the `most` best that are allowed."""
    scores = scores.detach().masked_fill(~allowed, -math.inf)
    best = scores.topk(min(most, scores.shape[-1]), -1).indices
    return torch.zeros_like(scores, dtype=torch.bool).scatter(-1, best, True) & allowed


def gate(config, p, l, x, prefix_mean, present):
    """Weights [B, T, R * C] (0: not chosen), which were chosen, and the layer's mean squared logsumexp."""
    batch, length, _ = x.shape
    normed = norm(x, p[f"layer.{l}.norm.gain"], p[f"layer.{l}.norm.bias"])
    columns = F.linear(normed, p[f"layer.{l}.gate.column"])
    rows = F.linear(normed if ROUTES[config.route] == "token" else prefix_mean, p[f"layer.{l}.gate.row"])
    z = columns.logsumexp(-1).square().mean() + rows.logsumexp(-1).square().mean()
    if ROUTES[config.route] == "document":
        rows = rows[:, None, :].expand(batch, length, config.rows)
    row_choice = rows + p[f"layer.{l}.balance.row"]
    row_kept = keep_best(row_choice, present.any(1).expand(row_choice.shape), config.rows_per_token)
    choice = row_choice[..., None] + (columns + p[f"layer.{l}.balance.column"])[..., None, :]
    allowed = (row_kept[..., None] & present).flatten(-2)
    chosen = keep_best(choice.flatten(-2), allowed, config.experts_per_token)
    scores = (rows[..., None] + columns[..., None, :]).flatten(-2).masked_fill(~chosen, -math.inf)
    weight = scores.softmax(-1) if bool(chosen.any()) else torch.zeros_like(scores)
    return weight, chosen, z


def dmoe(config, parameters, l, x, weight, chosen):
    """Sum over the chosen experts e of w_e * expert_e(x), each expert on the rows that chose it."""
    flat_x, flat_weight, flat_chosen = x.flatten(0, 1), weight.flatten(0, 1), chosen.flatten(0, 1)
    total = torch.zeros_like(flat_x)
    for e in range(config.rows * config.columns):
        rows = flat_chosen[:, e].nonzero().squeeze(1)
        if len(rows) > 0:
            y = expert(config, parameters[f"ffn.{l}.{e // config.columns}.{e % config.columns}"], flat_x[rows])
            total = total.index_add(0, rows, y * flat_weight[rows, e, None])
    return total.reshape(x.shape)


def embed(config, p, records):
    """[B, T, d] and what the row gates of route `document` see."""
    if KINDS[config.kind] == "classifier":
        inputs = records[:, :-1].to(p["embed.weight"].dtype) / 127.5 - 1
        return F.linear(inputs, p["embed.weight"], p["embed.bias"])[:, None, :], None
    inputs = records[:, :-1]  # the last byte is predicted but predicts nothing
    x = p["embed.token"][inputs] + p["embed.position"][:inputs.shape[1]]
    return x, x[:, :config.prefix].mean(1)


def logits_of(config, p, x):
    x = norm(x, p["final.norm.gain"], p["final.norm.bias"])
    if KINDS[config.kind] == "classifier":
        return F.linear(x[:, 0], p["head.weight"], p["head.bias"])
    return F.linear(x[:, config.prefix - 1:], p["embed.token"])


@dataclass
class Forward:
    logits: torch.Tensor
    loss: torch.Tensor  # mean cross-entropy, nats
    z: torch.Tensor
    chosen: list        # of each layer, [B, T, R * C]
    correct: int


def forward(config, parameters, records):
    """records [B, window] of bytes (int64)."""
    p = parameters["trunk"]
    x, prefix_mean = embed(config, p, records)
    z, choices = 0, []
    for l in range(config.layers):
        present = torch.tensor([[f"ffn.{l}.{r}.{c}" in parameters for c in range(config.columns)] for r in range(config.rows)])
        if KINDS[config.kind] == "lm":
            x = x + attention(config, p, l, x)
        weight, chosen, layer_z = gate(config, p, l, x, prefix_mean, present)
        x = x + dmoe(config, parameters, l, x, weight, chosen)
        z = z + layer_z / config.layers
        choices.append(chosen)
    logits = logits_of(config, p, x).reshape(-1, config.vocabulary or config.classes)
    targets = (records[:, config.prefix:] if KINDS[config.kind] == "lm" else records[:, -1:]).reshape(-1)
    correct = int((logits.argmax(-1) == targets).sum())
    return Forward(logits, F.cross_entropy(logits, targets), z, choices, correct)


# --- common/model/train.h -------------------------------------------------------------------------------------------------------------

class Trainer:
    """All present shards, with PyTorch's own AdamW."""

    def __init__(self, config, training, parameters):
        self.config, self.training, self.parameters = config, training, parameters
        decayed, plain = [], []
        for tensors in parameters.values():
            for name, tensor in tensors.items():
                if "balance." not in name:
                    tensor.requires_grad_(True)
                    (decayed if tensor.dim() == 2 else plain).append(tensor)
        self.trained = decayed + plain
        groups = [{"params": decayed, "weight_decay": training.weight_decay}, {"params": plain, "weight_decay": 0.0}]
        self.optimizer = torch.optim.AdamW(groups, lr=training.learning_rate, betas=(training.beta1, training.beta2), eps=training.epsilon)

    def backward(self, records):
        self.optimizer.zero_grad(set_to_none=True)
        result = forward(self.config, self.parameters, records)
        (result.loss + self.training.z_loss * result.z).backward()
        for tensor in self.trained:
            if tensor.grad is None:  # an expert that nobody chose: its moments fade and its weights decay all the same
                tensor.grad = torch.zeros_like(tensor)
        return result

    def step(self, records):
        result = self.backward(records)
        size = math.sqrt(sum(float(tensor.grad.double().square().sum()) for tensor in self.trained))
        if self.training.clip > 0 and size > self.training.clip:
            for tensor in self.trained:
                tensor.grad *= self.training.clip / size
        self.optimizer.step()
        for l, chosen in enumerate(result.chosen):
            self.balance(l, chosen.reshape(-1, self.config.rows, self.config.columns))
        return result

    def balance(self, l, chosen):
        """balance_step * sign(mean load - load), over rows and columns that have a present expert."""
        config = self.config
        present = torch.tensor([[f"ffn.{l}.{r}.{c}" in self.parameters for c in range(config.columns)] for r in range(config.rows)])
        for name, loads, open_ones in (("row", chosen.any(2).sum(0), present.any(1)), ("column", chosen.any(1).sum(0), present.any(0))):
            if bool(open_ones.any()):
                mean = loads[open_ones].double().mean()
                move = self.training.balance_step * (mean - loads.double()).sign() * open_ones
                bias = self.parameters["trunk"][f"layer.{l}.balance.{name}"]
                bias += move.to(bias.dtype)
