"""The JSON Schemas under schemas/ and the decoders in C say the same.

Every example that the encoders write is valid. Then each example is changed at each place (a member removed, an unknown one
added, a null, numbers at and beyond the schema's bounds) and both judge it: what a schema refuses, the decoder refuses; what
stands exactly on a bound, the decoder does not call out of range.
"""
import copy
import json
import os
import subprocess
import sys

try:
    import jsonschema
except ImportError:
    print("1..0 # SKIP install the Debian package python3-jsonschema")
    sys.exit(0)

SOURCE = os.environ.get("SKEP_SOURCE", ".")
TOOL = os.path.join(os.environ.get("SKEP_BUILD", "."), "tests/unit/wire/statement-tool")
NAMES = ["manifest", "record", "update", "caller", "seal", "envelope", "message"]

count = 0
failed = 0


def report(ok, name, detail=""):
    global count, failed
    count += 1
    failed += not ok
    print("%s %d - %s" % ("ok" if ok else "not ok", count, name))
    if not ok:
        print("# " + detail)


def load(name):
    with open(os.path.join(SOURCE, "schemas", name + ".schema.json"), encoding="utf-8") as file:
        return json.load(file)


def validators():
    schemas = {name: load(name) for name in NAMES}
    store = {schema["$id"]: schema for schema in schemas.values()}
    result = {}
    for name, schema in schemas.items():
        jsonschema.Draft202012Validator.check_schema(schema)
        resolver = jsonschema.RefResolver(schema["$id"], schema, store=store)
        result[name] = jsonschema.Draft202012Validator(schema, resolver=resolver)
    return result


def places(value, path=()):
    """The path of every member and item."""
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in members:
        yield path + (key,)
        yield from places(inner, path + (key,))


def changed(value, path, change):
    result = copy.deepcopy(value)
    inner = result
    for key in path[:-1]:
        inner = inner[key]
    change(inner, path[-1])
    return result


def bounds(schema, key):
    """Bounds of a member of that name anywhere in the schema."""
    found = set()
    stack = [schema]
    while stack:
        node = stack.pop()
        if isinstance(node, dict):
            inner = node.get("properties", {}).get(key)
            if isinstance(inner, dict) and "minimum" in inner:
                found.add((inner["minimum"], inner["maximum"], inner["type"]))
            stack.extend(node.values())
        elif isinstance(node, list):
            stack.extend(node)
    return found


def setter(new):
    def change(inner, key):
        inner[key] = new

    return change


def variants(schema, example):
    """(what was done, must both refuse, value)"""
    yield "unknown member", True, dict(example, surprise=1)
    for path in places(example):
        where = ".".join(map(str, path))
        if isinstance(path[-1], str):
            yield "without " + where, None, changed(example, path, lambda inner, key: inner.pop(key))
        yield "null at " + where, True, changed(example, path, setter(None))
        yield "list at " + where, True, changed(example, path, setter(["?"]))
        for least, most, kind in bounds(schema, path[-1]):
            step = 1 if kind == "integer" else abs(most) * 1e-3
            below = least - (1 if kind == "integer" else abs(least) * 1e-3 + 1e-15)
            yield "%s below its bound" % where, True, changed(example, path, setter(below))
            yield "%s above its bound" % where, True, changed(example, path, setter(most + step))
            yield "%s on its lower bound" % where, False, changed(example, path, setter(least))
            yield "%s on its upper bound" % where, False, changed(example, path, setter(most))


def judge(cases):
    lines = "".join("%s %s\n" % (name, json.dumps(value)) for name, _, _, value in cases)
    run = subprocess.run([TOOL, "read"], input=lines, stdout=subprocess.PIPE, text=True, check=True, timeout=30)
    return run.stdout.splitlines()


def main():
    validator = validators()
    printed = subprocess.run([TOOL], stdout=subprocess.PIPE, text=True, check=True, timeout=30).stdout
    examples = [(line.split(" ", 1)[0], json.loads(line.split(" ", 1)[1])) for line in printed.splitlines()]
    for number, (name, example) in enumerate(examples):
        errors = [error.message for error in validator[name].iter_errors(example)]
        label = "%s %s" % (name, example.get("kind", number))
        report(not errors, "the schema accepts the %s that the encoder writes" % label, "; ".join(errors))
        cases = [(name, done, refuse, value) for done, refuse, value in variants(validator[name].schema, example)]
        answers = judge(cases)
        wrong = [] if len(answers) == len(cases) else ["%d answers for %d cases" % (len(answers), len(cases))]
        for (_, done, refuse, value), answer in zip(cases, answers):
            # All errors, not the first: a resolver that is left halfway keeps the scope it was in.
            valid = not list(validator[name].iter_errors(value))
            if not valid and answer == "ok":
                wrong.append("%s: only the schema refuses" % done)
            elif refuse is True and (valid or answer == "ok"):
                wrong.append("%s: schema %s, decoder: %s" % (done, valid, answer))
            elif refuse is None and valid:
                wrong.append("%s: the schema accepts" % done)
            elif refuse is False and " from " in answer and " to " in answer:
                wrong.append("%s: %s" % (done, answer))
        report(not wrong, "schema and decoder agree on %d changes of %s" % (len(cases), label), "; ".join(wrong[:5]))
    print("1..%d" % count)
    return failed != 0


sys.exit(main())
