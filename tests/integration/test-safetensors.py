#!/usr/bin/python3
"""safetensors in both directions against other implementations.

The first is below, written from the published text of the format alone (the README of github.com/huggingface/safetensors) and as
strict as common/wire/safetensors.h says Skep is: files that Skep writes are read here and files written here, in the manner of
several programs, are read by Skep; on damaged headers both give the same verdict. The second reads only: the npm package
@jax-js/loaders, where it and node are found, in SKEP_NODE_MODULES or the tree's node_modules:

    npm install --prefix DIR @jax-js/loaders  &&  SKEP_NODE_MODULES=DIR/node_modules make check

Prints TAP."""
import json
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile

SOURCE = os.path.abspath(os.environ.get("SKEP_SOURCE", "."))
TOOL = os.path.join(os.environ.get("SKEP_BUILD", "."), "tests/unit/wire/safetensors-tool")
FOLDER = tempfile.mkdtemp(prefix="skep-safetensors-")
PACKAGE = "@jax-js/loaders"

# Bits that careless copies change: zeros of both signs, the smallest numbers, infinities, NaN with a payload of either kind.
ODD = bytes.fromhex("00000000 00000080 01000000 ffff7f00 0000807f 000080ff 0100807f efbeffff")


class Refused(Exception):
    pass


class Skip(Exception):
    pass


def require(condition, sentence):
    if not condition:
        raise Refused(sentence)


# ---- the format, from its text ----

def once(pairs):
    result = dict(pairs)
    require(len(result) == len(pairs), "duplicate keys")
    for key, value in pairs:
        for text in [key] + [value] * isinstance(value, str):
            require("\0" not in text, "a NUL")
            text.encode()  # half a surrogate pair is no text
    return result


def no_constant(name):
    raise Refused(f"{name} is no JSON")


def parse_header(text):
    try:
        return json.loads(text.decode(), object_pairs_hook=once, parse_constant=no_constant)
    except (ValueError, RecursionError) as error:
        raise Refused(str(error))


def read_tensor(name, entry, data):
    require(1 <= len(name) <= 127 and all("!" <= c <= "~" and c not in '"\\' for c in name), "name")
    require(isinstance(entry, dict) and set(entry) == {"dtype", "shape", "data_offsets"}, "members")
    require(entry["dtype"] == "F32", "dtype")
    shape, offsets = entry["shape"], entry["data_offsets"]
    require(isinstance(shape, list) and len(shape) <= 4 and all(type(n) is int and n >= 1 for n in shape), "shape")
    require(isinstance(offsets, list) and len(offsets) == 2 and all(type(n) is int for n in offsets), "offsets")
    count = 1
    for axis in shape:
        count *= axis
    begin, end = offsets
    require(0 <= begin <= end <= len(data) and end - begin == 4 * count, "span")
    return begin, end, (name, shape, data[begin:end])


def read(file):
    """[(name, shape, bytes)] in the order of the data."""
    require(len(file) >= 8, "short")
    size = struct.unpack("<Q", file[:8])[0]
    require(size <= min(len(file) - 8, 2**20 + 4096) and file[8:9] == b"{", "header")
    header, data = parse_header(file[8:8 + size]), file[8 + size:]
    metadata = header.pop("__metadata__", {})
    require(isinstance(metadata, dict) and all(isinstance(text, str) for text in metadata.values()), "metadata")
    found = sorted(read_tensor(name, entry, data) for name, entry in header.items())
    at = 0
    for begin, end, _ in found:
        require(begin == at, "overlap or hole")
        at = end
    require(at == len(data), "cover")
    return [tensor for _, _, tensor in found]


def write(tensors, metadata=None, order=None, separators=(",", ":"), align=8, last=False):
    """A file of [(name, shape, bytes)] in this order of data; the header names them in `order`, metadata first or last."""
    entries = {}
    at = 0
    for name, shape, values in tensors:
        entries[name] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + len(values)]}
        at += len(values)
    header = {name: entries[name] for name in order or entries}
    if metadata is not None:
        header = {**header, "__metadata__": metadata} if last else {"__metadata__": metadata, **header}
    text = json.dumps(header, separators=separators).encode()
    text += b" " * (-len(text) % align)
    return struct.pack("<Q", len(text)) + text + b"".join(values for _, _, values in tensors)


# ---- the cases ----

def examples():
    """Lists of tensors."""
    rng = random.Random(1)
    yield []
    yield [("scalar", [], ODD[20:24])]
    yield [("odd", [2, 4], ODD)]
    yield [("embed.token", [3, 5], rng.randbytes(60)), ("ffn.0.w_in", [1, 1, 7, 1], rng.randbytes(28)), ("b", [1], ODD[24:28])]
    yield [("x" * 127, [1000, 1], rng.randbytes(4000))]
    yield [(f"layer.{i}/weight", [i % 3 + 1, 2], rng.randbytes(8 * (i % 3 + 1))) for i in range(100)]


def ask(files, *options):
    """What the tool answers to each of these bytes: a list of tensors, or the sentence of refusal."""
    folder = tempfile.mkdtemp(dir=FOLDER)
    paths = [os.path.join(folder, str(i)) for i in range(len(files))]
    for path, data in zip(paths, files):
        with open(path, "wb") as file:
            file.write(data)
    run = subprocess.run([TOOL, *options, *paths], stdout=subprocess.PIPE, check=True)
    answers = run.stdout.decode().split("\n")
    assert len(answers) == len(files) + 1 and answers[-1] == "", len(answers)
    return [parse_answer(answer) for answer in answers[:-1]]


def parse_answer(answer):
    kind, _, rest = answer.partition(" ")
    if kind == "refused":
        return rest
    words = rest.split()
    return [(words[i], [int(n) for n in words[i + 1].split(",") if n != "-"], bytes.fromhex(words[i + 2]))
            for i in range(0, len(words), 3)]


def skeps_files():
    """Each example as Skep writes it."""
    folder = tempfile.mkdtemp(dir=FOLDER)
    ask([write(tensors) for tensors in examples()], "--write", folder)
    for name in sorted(os.listdir(folder), key=int):
        with open(os.path.join(folder, name), "rb") as file:
            yield file.read()


def files_that_skep_writes_are_read_by_the_format_s_text():
    for tensors, file in zip(examples(), skeps_files(), strict=True):
        assert read(file) == tensors, tensors
        size = struct.unpack("<Q", file[:8])[0]
        assert size % 8 == 0, size  # so that data is aligned
        assert file == write(tensors, {"format": "skep"}), file[:200]  # canonical: one form, to the byte


def files_of_other_programs_are_read_by_skep():
    manners = [
        {},  # as the reference implementation writes: compact, padded to 8
        {"metadata": {"format": "pt"}},
        {"metadata": {}, "last": True},
        {"metadata": {"note": "\u20ac \" \\ \n"}, "separators": (", ", ": ")},
        {"align": 1},  # data at any address
        {"separators": (" ,\n\t", " :\r\n"), "align": 64},
    ]
    for tensors in examples():
        order = [name for name, _, _ in tensors]
        files = [write(tensors, **manner) for manner in manners]
        files += [write(tensors, order=order[::-1]), write(tensors, order=sorted(order, reverse=True), align=1)]
        for file, answer in zip(files, ask(files), strict=True):
            assert answer == tensors == read(file), (answer, file[:200])


def what_the_format_allows_and_skep_has_no_use_for_is_refused_by_name():
    def one(**changes):
        entry = {"dtype": "F32", "shape": [1], "data_offsets": [0, 4], **changes}
        text = json.dumps({"a": entry}).encode()
        return struct.pack("<Q", len(text)) + text + b"\0" * entry["data_offsets"][1]

    types = ["BOOL", "U8", "I8", "F8_E5M2", "F8_E4M3", "I16", "U16", "F16", "BF16", "I32", "U32", "F64", "I64", "U64", "F4", "C64"]
    for name, answer in zip(types, ask([one(dtype=name) for name in types]), strict=True):
        assert answer == f"tensor a: dtype is {name}; allowed: F32", answer
    answers = ask([one(shape=[0], data_offsets=[0, 0]), one(shape=[1] * 5)])
    assert answers[0].startswith("tensor a: axis 0 of its shape is 0; expected 1 or more"), answers
    assert answers[1].startswith("tensor a: field shape is an array of 5 items; allowed"), answers


PIECES = ['"a":', '"b":', '"__metadata__":', '{}', '{"k":"v"}', '{"k":1}', "[]", "[1]", "[0,4]", "[4,8]", "[0]", "[2,1]", "[-1]", "0", "4", "8",
          "-0", "1.0", "1e0", "null", '"F32"', '"F16"', '"shape":', '"dtype":', '"data_offsets":', ",", "{", "}", "[", "]", " ", "\t", '"', "\\",
          "\\u0000", "\\ud800", "\\ud83d\\ude00", "\u00e9", "\0", "\x7f", "9223372036854775807", "9223372036854775808", "268435457",
          '"c":{"dtype":"F32","shape":[],"data_offsets":[0,4]},', '"b":{"shape":[1],"data_offsets":[4,8],"dtype":"F32"}']


def damage(rng, file):
    """The file with one to three changes in its header, whose size is told anew, or in the sizes."""
    size = struct.unpack("<Q", file[:8])[0]
    header, data = file[8:8 + size].decode(), file[8 + size:]
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        at = rng.randrange(len(header) + 1)
        cut = rng.choice([0, 0, 0, 1, 1, 2, 5])
        header = header[:at] + rng.choice(PIECES + [" "] * 80) + header[at + cut:]
    if rng.random() < 0.1:
        data = data[:-1] if rng.random() < 0.5 else data + b"\0"
    text = bytearray(header.encode())
    if rng.random() < 0.1:
        text[rng.randrange(len(text))] = rng.randrange(256)
    told = len(text) + (rng.choice([-1, 1, 8, 2**63]) if rng.random() < 0.05 else 0)
    return struct.pack("<Q", max(told, 0)) + text + data


def both_give_the_same_verdict_on_damaged_headers():
    rng = random.Random(7)
    tensors = [("a", [1], ODD[:4]), ("b", [1, 1], ODD[4:8]), ("c", [], ODD[8:12])]
    whole = [write(tensors[:n], manner, align=1) for n in (1, 2, 3) for manner in (None, {"k": "v"})]
    files = [damage(rng, rng.choice(whole)) for _ in range(3000)]
    taken = 0
    for file, answer in zip(files, ask(files), strict=True):
        try:
            expected = read(file)
            taken += 1
        except Refused:
            expected = None
        if expected is None:
            assert isinstance(answer, str), (answer, file)
            assert answer.startswith(("safetensors", "tensor ")) and answer.isprintable() and answer.isascii(), answer
        else:
            assert answer == expected, (answer, file)
    assert 100 < taken < 2900, taken  # both kinds were there


NODE = """
import fs from "node:fs";
import { pathToFileURL } from "node:url";
const { safetensors } = await import(pathToFileURL(process.argv[1]));
for (const path of process.argv.slice(2)) {
    const tensors = safetensors.parse(new Uint8Array(fs.readFileSync(path)).buffer).tensors;
    console.log(JSON.stringify(Object.entries(tensors).map(([name, tensor]) => [
        name, tensor.dtype, tensor.shape,
        Buffer.from(tensor.data.buffer, tensor.data.byteOffset, tensor.data.byteLength).toString("hex")])));
}
"""


def files_that_skep_writes_are_read_by_an_npm_package():
    folders = [os.environ.get("SKEP_NODE_MODULES", ""), os.path.join(SOURCE, "node_modules")]
    found = [path for folder in folders if os.path.exists(path := os.path.join(folder, PACKAGE, "dist/index.js"))]
    if not found or shutil.which("node") is None:
        raise Skip(f"node or the npm package {PACKAGE} was not found; the head of this file says how to install it")
    folder = tempfile.mkdtemp(dir=FOLDER)
    paths = []
    for file in skeps_files():
        paths.append(os.path.join(folder, str(len(paths))))
        with open(paths[-1], "wb") as to:
            to.write(file)
    run = subprocess.run(["node", "--input-type=module", "-e", NODE, os.path.abspath(found[0]), *paths],
                         stdout=subprocess.PIPE, check=True)
    lines = run.stdout.decode().splitlines()
    for tensors, line in zip(examples(), lines, strict=True):
        assert json.loads(line) == [[name, "F32", shape, values.hex()] for name, shape, values in tensors], line[:200]


CASES = [
    files_that_skep_writes_are_read_by_the_format_s_text,
    files_of_other_programs_are_read_by_skep,
    what_the_format_allows_and_skep_has_no_use_for_is_refused_by_name,
    both_give_the_same_verdict_on_damaged_headers,
    files_that_skep_writes_are_read_by_an_npm_package,
]


def main():
    print(f"1..{len(CASES)}")
    failed = 0
    for number, case in enumerate(CASES, 1):
        name = case.__name__.replace("_s_", "'s ").replace("_", " ")
        try:
            case()
            print(f"ok {number} - {name}", flush=True)
        except Skip as reason:
            print(f"ok {number} - {name} # SKIP {reason}", flush=True)
        except Exception as error:  # a failure of any kind is a failed case, and the next one still runs
            failed += 1
            print("".join(f"# {line}\n" for line in f"{type(error).__name__}: {error}"[:2000].splitlines()), end="")
            print(f"not ok {number} - {name}", flush=True)
    shutil.rmtree(FOLDER)
    return 1 if failed else 0


sys.exit(main())
