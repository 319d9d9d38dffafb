#!/usr/bin/python3
"""Experts computed by real keepers for callers: the numbers are right, gradients end as ordinary updates with receipts, and what makes no
sense is refused in one sentence. Prints TAP."""
import base64
import http.client
import json
import math
import os
import secrets
import struct
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
import skep

DIM, HIDDEN = 32, 64  # of TINY_TASK
CALLER = "application/vnd.skep.caller+json"
UPDATE = "application/vnd.skep.update+json"
EXPERTS = [f"ffn.0.{row}.{column}" for row in range(2) for column in range(2)]

tap = skep.Tap()
swarm = skep.Swarm(keepers=2, donors=0)
random = skep.seed()


# ---- safetensors and the arithmetic of one expert, by the book ----

def write_tensors(tensors):
    """{name: rows}; the file's bytes."""
    header, data = {}, b""
    for name, rows in tensors.items():
        flat = [value for row in rows for value in row]
        header[name] = {"dtype": "F32", "shape": [len(rows), len(rows[0])], "data_offsets": [len(data), len(data) + 4 * len(flat)]}
        data += struct.pack(f"<{len(flat)}f", *flat)
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def read_tensors(file):
    """{name: rows}, a vector being one row."""
    size = struct.unpack("<Q", file[:8])[0]
    tensors = {}
    for name, entry in json.loads(file[8:8 + size]).items():
        if name != "__metadata__":
            first, last = entry["data_offsets"]
            flat = struct.unpack(f"<{(last - first) // 4}f", file[8 + size + first:8 + size + last])
            width = entry["shape"][-1]
            tensors[name] = [list(flat[i:i + width]) for i in range(0, len(flat), width)]
    return tensors


def expert_state(shard, i=0):
    return read_tensors(swarm.get(i, f"/v1/projects/{swarm.project}/shards/{shard}/versions/latest/state").body)


def dot(a, b):
    return sum(x * y for x, y in zip(a, b))


def gelu(x):
    return 0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3)))


def expert(state, x):
    """y = gelu(norm(x) up^T + up_bias) down^T + down_bias of one row."""
    mean = sum(x) / len(x)
    scale = 1 / math.sqrt(sum((v - mean) ** 2 for v in x) / len(x) + 1e-5)
    normed = [(v - mean) * scale * g + b for v, g, b in zip(x, state["norm.gain"][0], state["norm.bias"][0])]
    active = [gelu(dot(normed, w) + b) for w, b in zip(state["up.weight"], state["up.bias"][0])]
    return [dot(active, w) + b for w, b in zip(state["down.weight"], state["down.bias"][0])]


def some_rows(count, width=DIM):
    return [[random.gauss(0, 1) for _ in range(width)] for _ in range(count)]


def close(found, expected, tolerance):
    return all(abs(a - b) <= tolerance * (1 + abs(b)) for f, e in zip(found, expected) for a, b in zip(f, e))


# ---- calls ----

def call(what, body, i=0, token=None, project=None):
    headers = {"Content-Type": "application/octet-stream"}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    return swarm.post(i, f"/v1/projects/{project or swarm.project}/experts/{what}", body, headers=headers)


def forward(tensors, i=0):
    answer = call("forward", write_tensors(tensors), i)
    assert answer.status == 200, (answer.status, answer.body)
    return read_tensors(answer.body)


def backward(tensors, token, i=0):
    answer = call("backward", write_tensors(tensors), i, token)
    assert answer.status == 200, (answer.status, answer.body)
    return read_tensors(answer.body)


def keeper_id(i):
    return swarm.get(i, "/v1/health").json()["keeper"]


def session_statement(key, i=0, **changed):
    fields = {"project": swarm.project, "keeper": keeper_id(i), "caller": key.id, "time_s": int(time.time()),
              "nonce": secrets.token_hex(32)}
    fields.update(changed)
    return fields


def open_session(key, i=0):
    answer = call("sessions", key.envelope(CALLER, session_statement(key, i)), i)
    assert answer.status == 201, (answer.status, answer.body)
    return answer.json()["token"]


def refused(answer, status, code, *words):
    assert answer.status == status, (answer.status, answer.body)
    found, message = answer.error()
    assert found == code, (found, message)
    assert message and "\n" not in message, message
    for word in words:
        assert word in message, (word, message)


def ask_updates(token, shards, i=0):
    answer = call("updates", {"shards": shards}, i, token)
    assert answer.status == 200, (answer.status, answer.body)
    return answer.json()


def version_of(shard, i=0):
    return swarm.get(i, f"/v1/projects/{swarm.project}/head").json()["shards"][shard]["version"]


# ---- the numbers ----

@tap.case
def forward_is_what_the_formula_says():
    x = {name: some_rows(count) for name, count in zip(EXPERTS, (1, 3, 7, 2))}
    for i in range(2):
        y = forward(x, i)
        assert list(y) == list(x), list(y)
        for name in EXPERTS:
            state = expert_state(name)
            assert close(y[name], [expert(state, row) for row in x[name]], 1e-4), name


@tap.case
def experts_that_are_not_here_are_left_out():
    x = {"ffn.0.0.0": some_rows(1), "ffn.0.9.9": some_rows(1), "ffn.7.0.0": some_rows(2)}
    assert list(forward(x)) == ["ffn.0.0.0"]
    assert forward({"ffn.0.9.9": some_rows(1)}) == {}


@tap.case
def backward_is_the_slope_of_forward():
    token = open_session(skep.Key())
    name = EXPERTS[0]
    state = expert_state(name)
    x, dy = some_rows(2), some_rows(2)
    dx = backward({f"{name}.x": x, f"{name}.dy": dy}, token)[name]
    step = 1e-5
    for row in range(2):
        for place in random.sample(range(DIM), 6):
            ends = []
            for sign in (1, -1):
                moved = list(x[row])
                moved[place] += sign * step
                ends.append(dot(dy[row], expert(state, moved)))
            slope = (ends[0] - ends[1]) / (2 * step)
            assert abs(slope - dx[row][place]) < 1e-3 * (1 + abs(slope)), (row, place, slope, dx[row][place])


# ---- gradients become updates ----

@tap.case
def a_gradient_is_merged_and_its_caller_gets_the_receipt():
    key = skep.Key()
    token = open_session(key)
    name = EXPERTS[1]
    x = some_rows(8)
    for _ in range(3):
        y = forward({name: x})[name]
        backward({f"{name}.x": x, f"{name}.dy": y}, token)  # the loss is |y|^2 / 2
    before = sum(dot(row, row) for row in forward({name: x})[name])
    answer = ask_updates(token, [name, EXPERTS[2]])
    assert answer["early"] == [] and [one["shard"] for one in answer["updates"]] == [name], answer
    made = answer["updates"][0]
    body = base64.b64decode(made["body"])
    statement = json.loads(made["statement"])
    head = swarm.get(0, f"/v1/projects/{swarm.project}/head").json()["shards"][name]
    assert statement["project"] == swarm.project and statement["shard"] == name and statement["donor"] == key.id
    assert statement["base_version"] == head["version"] and statement["base_state"] == head["root"]
    assert statement["body"] == skep.sha256(body) and statement["tokens"] == 24
    assert ask_updates(token, [name]) == {"updates": [], "early": []}  # nothing has gathered since
    backward({f"{name}.x": x, f"{name}.dy": y}, token)
    assert ask_updates(token, [name]) == {"updates": [], "early": [name]}
    statement["stamp"] = skep.stamp(swarm.project, key.id, 1)
    file = skep.update_file(key.envelope(UPDATE, statement), body)
    for i in range(2):
        answer = swarm.post(i, f"/v1/projects/{swarm.project}/updates", file, headers={"Content-Type": "application/octet-stream"})
        assert answer.status in (200, 201), (answer.status, answer.body)
    skep.wait("the update is merged", lambda: version_of(name) > head["version"])
    rows = swarm.get(0, f"/v1/projects/{swarm.project}/receipts?donor={key.id}").json()["receipts"]
    assert len(rows) == 1
    seal = json.loads(base64.b64decode(rows[0]["seal"]["payload"]))
    assert seal["shard"] == name and [one["donor"] for one in seal["receipts"]] == [key.id]
    after = sum(dot(row, row) for row in forward({name: x})[name])
    assert after < before, (before, after)
    answer = ask_updates(token, [name])  # what was early is an update from the new version now
    assert [json.loads(one["statement"])["base_version"] for one in answer["updates"]] == [head["version"] + 1]


@tap.case
def nobody_can_sign_for_another():
    key, liar = skep.Key(), skep.Key()
    token = open_session(key)
    name = EXPERTS[3]
    backward({f"{name}.x": some_rows(2), f"{name}.dy": some_rows(2)}, token)
    made = ask_updates(token, [name])["updates"][0]
    file = skep.update_file(liar.envelope(UPDATE, made["statement"].encode()), base64.b64decode(made["body"]))
    answer = swarm.post(0, f"/v1/projects/{swarm.project}/updates", file, headers={"Content-Type": "application/octet-stream"})
    refused(answer, 400, "signature", key.id)


@tap.case
def sessions_do_not_see_each_others_gradients():
    one, other = open_session(skep.Key()), open_session(skep.Key())
    name = EXPERTS[0]
    backward({f"{name}.x": some_rows(1), f"{name}.dy": some_rows(1)}, one)
    assert ask_updates(other, [name])["updates"] == []
    assert len(ask_updates(one, [name])["updates"]) == 1


# ---- who may ----

@tap.case
def a_session_wants_a_fresh_statement_of_its_caller_for_this_keeper():
    key, liar = skep.Key(), skep.Key()
    refused(call("sessions", liar.envelope(CALLER, session_statement(key))), 400, "signature", key.id)
    refused(call("sessions", key.envelope(CALLER, session_statement(key, keeper=keeper_id(1)))), 403, "refused", "is for keeper")
    refused(call("sessions", key.envelope(CALLER, session_statement(key, project="0" * 64))), 403, "refused", "is for project")
    refused(call("sessions", key.envelope(CALLER, session_statement(key, time_s=1000))), 409, "stale", "signed at 1000")
    refused(call("sessions", key.envelope(UPDATE, session_statement(key))), 400, "format")
    envelope = key.envelope(CALLER, session_statement(key))
    assert call("sessions", envelope).status == 201
    refused(call("sessions", envelope), 409, "duplicate", "opened a session already")


@tap.case
def backward_and_updates_want_a_session_of_this_keeper():
    name = EXPERTS[0]
    body = write_tensors({f"{name}.x": some_rows(1), f"{name}.dy": some_rows(1)})
    refused(call("backward", body), 401, "refused", "no such session")
    refused(call("backward", body, token="0" * 64), 401, "refused")
    refused(call("backward", body, token="short"), 401, "refused")
    refused(call("updates", {"shards": [name]}), 401, "refused")
    token = open_session(skep.Key(), 1)
    refused(call("backward", body, token=token), 401, "refused")  # the other keeper's
    assert call("backward", body, 1, token).status == 200


# ---- what makes no sense ----

@tap.case
def bad_tensors_are_refused_by_name():
    name = EXPERTS[0]
    good = some_rows(2)
    for wrong, status, code, words in (
            ({name: some_rows(2, DIM + 1)}, 400, "format", (name, str(DIM + 1), str(DIM))),
            ({name: some_rows(2049)}, 413, "too-large", (name, "2049", "2048")),
            ({"trunk": good}, 400, "format", ("trunk", "ffn.")),
            ({"weights": good}, 400, "format", ("weights",)),
            ({name: [[math.nan] * DIM]}, 400, "numeric", (name, "NaN")),
            ({name: good, EXPERTS[1]: [[math.inf] + [0.0] * (DIM - 1)]}, 400, "numeric", (EXPERTS[1],))):
        refused(call("forward", write_tensors(wrong)), status, code, *words)
    refused(call("forward", b"no tensors"), 400, "format")
    refused(call("forward", write_tensors({name: good}).replace(b'"F32"', b'"F16"')), 400, "format")
    zero = b'{"ffn.0.0.0":{"dtype":"F32","shape":[0,32],"data_offsets":[0,0]}}'
    refused(call("forward", struct.pack("<Q", len(zero)) + zero), 400, "format")
    refused(call("forward", write_tensors({name: good}), project="0" * 64), 404, "not-found")


@tap.case
def a_backward_pass_that_is_refused_leaves_nothing():
    token = open_session(skep.Key())
    name, other = EXPERTS[:2]
    good = some_rows(2)
    for wrong, status, code, words in (
            ({f"{name}.x": good, f"{name}.dy": [[math.nan] * DIM] * 2}, 400, "numeric", (f"{name}.dy",)),
            ({f"{name}.x": good, f"{name}.dy": some_rows(3)}, 400, "format", (f"{name}.dy",)),
            ({f"{name}.x": good}, 400, "format", (f"{name}.dy",)),
            ({f"{name}.dy": good}, 400, "format", ("one of each",)),
            ({name: good}, 400, "format", (".x and .dy",)),
            ({f"{name}.x": good, f"{name}.dy": good, "ffn.0.5.5.x": good, "ffn.0.5.5.dy": good}, 404, "not-found", ("ffn.0.5.5",)),
            ({f"{name}.x": good, f"{name}.dy": good, f"{other}.x": [[math.inf] * DIM], f"{other}.dy": some_rows(1)}, 400, "numeric", ()),
            ({f"{name}.x": good, f"{name}.dy": [[3e38] * DIM] * 2}, 400, "numeric", ("finite",))):
        refused(call("backward", write_tensors(wrong), token=token), status, code, *words)
    assert ask_updates(token, EXPERTS) == {"updates": [], "early": []}
    refused(call("updates", {"shards": ["trunk"]}, token=token), 400, "format", "trunk")
    refused(call("updates", {"shards": ["ffn.0.5.5"]}, token=token), 404, "not-found")
    refused(call("updates", {"shards": [name], "more": 1}, token=token), 400, "format", "more")


@tap.case
def a_caller_that_hangs_up_leaves_the_keeper_well():
    body = write_tensors({name: some_rows(2000) for name in EXPERTS})
    for _ in range(5):
        try:
            skep.request(swarm.keeper_host(0), "POST", f"/v1/projects/{swarm.project}/experts/forward", body, timeout=0.02)
        except OSError:
            pass
    assert len(forward({EXPERTS[0]: some_rows(1)})) == 1


@tap.case
def calls_that_were_answered_take_no_room_from_later_ones():
    body = write_tensors({name: [[0.5] * DIM] * 2000 for name in EXPERTS})
    limit = 256 << 20  # SKEP_REMOTE_BYTES, server/experts.h
    for _ in range(limit // len(body) + 2):
        answer = call("forward", body)
        assert answer.status == 200, answer.error()


@tap.case
def a_keeper_that_leaves_while_it_computes_ends_well():
    body = write_tensors({name: some_rows(2000) for name in EXPERTS})
    answers = []

    def ask():
        try:
            answers.append(call("forward", body, 1).status)
        except (OSError, http.client.HTTPException):
            answers.append(0)

    threads = [threading.Thread(target=ask) for _ in range(6)]
    for thread in threads:
        thread.start()
    skep.wait("the first answer", lambda: answers)
    assert swarm.processes["keeper-1"].stop() == 0
    for thread in threads:
        thread.join()
    assert answers[0] == 200 and all(status in (0, 200, 503) for status in answers), answers
    swarm.start_keeper(1)


@tap.case
def a_keeper_without_remote_mode_says_so():
    swarm.processes["keeper-1"].stop()
    swarm.start_keeper(1, extra=["--remote-threads", "0"])
    for what in ("forward", "backward", "sessions", "updates"):
        refused(call(what, b"{}", 1), 403, "refused", "--remote-threads 0")
    swarm.processes["keeper-1"].stop()
    swarm.start_keeper(1, extra=["--remote-memory", "1", "--remote-batch", "4"])
    refused(call("forward", write_tensors({EXPERTS[0]: some_rows(5)}), 1), 413, "too-large", "up to 4")
    assert len(forward({EXPERTS[0]: some_rows(4)}, 1)) == 1


with swarm:
    result = tap.main()
    if result:
        swarm.end(keep=True)
sys.exit(result)
