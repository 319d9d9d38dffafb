"""A project with audits, and a donor that publishes what its jobs do not give."""
import os
import shutil

import skep

TASK = skep.TINY_TASK.replace("stamp_bits: 1", "stamp_bits: 1\n  remote: false\n  audits: true")

# A worker that trains like the real one and then turns the sign of everything it publishes.
CHEAT = '''#!/usr/bin/python3
import glob, os, struct, subprocess, sys

def turn(data):
    """An update's body with each value's sign turned: the codebook backwards and negative, each code counted from its other end."""
    out = data[:4]
    at = 4
    for _ in range(struct.unpack_from("<I", data)[0]):
        codebook = struct.unpack_from("<4f", data, at)
        blocks, size = struct.unpack_from("<II", data, at + 16)
        bits = [data[at + 24 + i // 8] >> i % 8 & 1 for i in range(8 * size)]
        i = 0
        while len(bits) - i >= 8:
            while bits[i]:
                i += 1
            i += 6
            bits[i] ^= 1
            bits[i + 1] ^= 1
            i += 2
        packed = bytes(sum(bits[8 * j + k] << k for k in range(8)) for j in range(size))
        out += struct.pack("<4f", *(0.0 - value for value in reversed(codebook))) + struct.pack("<II", blocks, size) + packed
        at += 24 + size
    return out

worker = subprocess.Popen([os.environ["REAL_WORKER"]] + sys.argv[1:], stdout=subprocess.PIPE, text=True)
for line in worker.stdout:
    if '"done"' in line:
        for path in glob.glob(os.path.join(os.path.dirname(sys.argv[1]), "*.body")):
            with open(path, "rb") as file:
                body = turn(file.read())
            with open(path, "wb") as file:
                file.write(body)
    print(line, end="", flush=True)
sys.exit(worker.wait())
'''


def start_donor(swarm, i, program, environment=None):
    arguments = [program, "--dir", swarm.path(f"donor-{i}"), "--listen-host", swarm.donor_host(i),
                 "--attach", swarm.project, "--bootstrap", f"{swarm.keeper_host(0)}:{skep.PORT}"]
    swarm.processes[f"donor-{i}"] = skep.Process(arguments, swarm.path(f"donor-{i}.log"), environment)


def start_cheat(swarm, i):
    folder = swarm.path("cheat")
    os.mkdir(folder)
    shutil.copy(skep.program("skepd"), folder)
    worker = os.path.join(folder, "skep-worker")
    with open(worker, "w") as file:
        file.write(CHEAT)
    os.chmod(worker, 0o755)
    start_donor(swarm, i, os.path.join(folder, "skepd"), {"REAL_WORKER": os.path.abspath(skep.program("skep-worker"))})
