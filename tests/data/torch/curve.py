"""Training data that tests/bench/curve.c draws too: the same seed gives the same batches."""
import numpy
import torch

from skep_torch import KINDS, Rng, Trainer, seed_model

WORDS = 32
TEXT_BYTES = 16384
PATTERN = 64  # inputs of a record that come from its class: about so many


def text(seed):
    """Words of 2 to 7 letters in random order, the first ones more often."""
    rng = Rng(seed)
    words = []
    for _ in range(WORDS):
        length = 2 + int(rng.below(6, 1)[0])
        words.append(bytes(97 + int(letter) for letter in rng.below(26, length)) + b" ")
    order = rng.below(WORDS, TEXT_BYTES).reshape(-1, 2).min(1)
    return b"".join(words[i] for i in order)[:TEXT_BYTES]


def lm_batches(config, training, seed):
    whole = numpy.frombuffer(text(seed), dtype=numpy.uint8)
    starts = Rng(seed + 1).below(TEXT_BYTES - config.context + 1, int(training.steps * training.batch)).astype(numpy.int64)
    windows = whole[starts[:, None] + numpy.arange(config.context)]
    return windows.reshape(int(training.steps), int(training.batch), -1)


def classifier_batches(config, training, seed):
    """Each class has a pattern; of a record's inputs some are its class's and the rest is noise."""
    count = int(training.steps * training.batch)
    patterns = Rng(seed).below(256, config.classes * config.inputs).reshape(config.classes, config.inputs)
    classes = Rng(seed + 1).below(config.classes, count).astype(numpy.int64)
    noise = Rng(seed + 2).below(256, count * config.inputs).reshape(count, config.inputs)
    kept = Rng(seed + 3).below(1 + config.inputs // PATTERN, count * config.inputs).reshape(count, config.inputs) == 0
    records = numpy.concatenate([numpy.where(kept, patterns[classes], noise), classes[:, None]], 1)
    return records.astype(numpy.uint8).reshape(int(training.steps), int(training.batch), -1)


def curve(config, training, seed, dtype=torch.float32, progress=lambda step, loss: None):
    """Mean loss in nats of each step, from version 0 of `seed`, computed in `dtype`."""
    batches = (lm_batches if KINDS[config.kind] == "lm" else classifier_batches)(config, training, seed)
    start = seed_model(config, bytes([seed]) + bytes(31))
    trainer = Trainer(config, training, {shard: {name: t.to(dtype) for name, t in tensors.items()} for shard, tensors in start.items()})
    losses = []
    for step, records in enumerate(batches):
        losses.append(float(trainer.step(torch.from_numpy(records.astype(numpy.int64))).loss.detach()))
        progress(step, losses[-1])
    return losses
