#!/usr/bin/python3
"""What skep-cuda.so shows and needs, and that nothing else in Skep needs CUDA. Prints TAP."""
import os
import re
import subprocess
import sys

BUILD = os.environ.get("SKEP_BUILD", ".")
PLUGIN = os.path.join(BUILD, "common/gpu/skep-cuda.so")


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def needed(path):
    return re.findall(r"NEEDED.*\[(.*)\]", run("readelf", "-d", path))


def check_one_entry():
    names = [line.split()[-1] for line in run("nm", "-D", "--defined-only", PLUGIN).splitlines()]
    return [] if names == ["skep_cuda_plugin"] else [f"it shows {names}"]


def check_needs():
    libraries = needed(PLUGIN)
    wrong = [name for name in libraries if re.match(r"libcuda\.so|libcudart|libskep", name)]
    if not any(name.startswith("libcublas.so") for name in libraries):
        wrong.append("no cuBLAS")
    return wrong


def check_programs():
    for path in ("client/skepd", "client/skep", "client/skep-worker", "server/skep-keeper"):
        for name in needed(os.path.join(BUILD, path)):
            if re.match(r"libcu(da|dart|blas)", name):
                yield f"{path} needs {name}"


CHECKS = [
    ("the plug-in shows one function", check_one_entry, True),
    ("the plug-in needs cuBLAS, and neither the driver nor Skep to load", check_needs, True),
    ("no program of Skep needs CUDA", check_programs, False),
]


def main():
    built = os.path.exists(PLUGIN)
    print(f"1..{len(CHECKS)}")
    failed = 0
    for number, (name, check, of_plugin) in enumerate(CHECKS, 1):
        if of_plugin and not built:
            print(f"ok {number} - {name} # SKIP skipped: nvcc was not found")
            continue
        breaches = list(check())
        for breach in breaches:
            print(f"# {breach}")
        print(f"{'not ok' if breaches else 'ok'} {number} - {name}")
        failed += bool(breaches)
    return 1 if failed else 0


sys.exit(main())
