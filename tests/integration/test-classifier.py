#!/usr/bin/python3
"""A swarm learns to tell pictures apart: from IDX files to an accuracy that rises, through the real programs. Prints TAP."""
import os
import re
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
import skep

SIDE = 8
CLASSES = 4

TASK = """\
name: corners
data:
  images: {data}/images
  labels: {data}/labels
  holdout_every: 10
model:
  kind: classifier
  inputs: 64
  classes: 4
  dim: 32
  hidden: 64
  layers: 2
  rows: 2
  columns: 2
  experts_per_token: 2
training:
  steps: 20
  batch: 16
  donor_rows: 1
  slice_chunks: 2
  warmup_rounds: 2
  learning_rate: 0.004
update:
  keep: 1024
  mask: common
merge:
  overlap_permille: 0
  window_ms: 1000
trust:
  stamp_bits: 1
chunk_bytes: 4160
"""

tap = skep.Tap()
random = skep.seed()
data = skep.tempfile.mkdtemp(prefix="skep-classifier-")


def picture(corner):
    """Noise, brighter in one corner."""
    pixels = []
    for place in range(SIDE * SIDE):
        inside = (place // SIDE >= SIDE // 2) * 2 + (place % SIDE >= SIDE // 2) == corner
        pixels.append(random.randrange(80, 256) if inside else random.randrange(0, 176))
    return bytes(pixels)


def write_data(count):
    labels = bytes(random.randrange(CLASSES) for _ in range(count))
    with open(os.path.join(data, "images"), "wb") as file:
        file.write(struct.pack(">IIII", 0x803, count, SIDE, SIDE) + b"".join(map(picture, labels)))
    with open(os.path.join(data, "labels"), "wb") as file:
        file.write(struct.pack(">II", 0x801, count) + labels)


write_data(1500)
swarm = skep.Swarm(keepers=2, donors=0, task=TASK, data=data)


def accuracy():
    words = ["eval", "--project", swarm.project, "--bootstrap", f"{swarm.keeper_host(0)}:{skep.PORT}",
             "--dir", swarm.path("fetched")]
    return float(re.search(r"accuracy=([0-9.]+)", swarm.skep(*words).decode()).group(1))


@tap.case
def two_donors_learn_and_the_accuracy_rises():
    begin = accuracy()
    assert begin < 0.6, begin
    for i in range(2):
        swarm.start_donor(i)
    skep.wait("some rounds", lambda: swarm.versions(0) >= 8, 2 * skep.PATIENCE)
    swarm.stop_donors()
    skep.wait("one state", swarm.agreed)
    end = accuracy()
    print(f"# accuracy {begin:.3f}, after {swarm.versions(0)} rounds {end:.3f}")
    assert end > 0.9, (begin, end)
    assert swarm.status(0)["most_donors_in_seal"] == 2, swarm.status(0)


with swarm:
    result = tap.main()
    if result:
        swarm.end(keep=True)
skep.shutil.rmtree(data, ignore_errors=True)
sys.exit(result)
