#!/usr/bin/python3
"""The keeper against its description: every path and status of schemas/openapi.yaml that a client can provoke is asked for and the answer held against
the schema; every path the keeper answers is in the description. Prints TAP."""
import json
import os
import struct
import sys
import time

import jsonschema
import yaml

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
import skep

tap = skep.Tap()
swarm = skep.Swarm(keepers=2, donors=1)
with open(os.path.join(skep.SOURCE, "schemas/openapi.yaml")) as file:
    API = yaml.safe_load(file)
asked = set()


def resolve(node):
    while "$ref" in node:
        found = API
        for part in node["$ref"].lstrip("#/").split("/"):
            found = found[part]
        node = found
    return node


def check(method, path, answer):
    """The answer's status is described for this path, and its body fits."""
    asked.add((path, method.lower()))
    operation = API["paths"][path][method.lower()]
    assert str(answer.status) in operation["responses"], f"{method} {path} answered {answer.status}: {answer.body[:200]}"
    content = resolve(operation["responses"][str(answer.status)]).get("content", {})
    kind = answer.headers.get("Content-Type", "").split(";")[0]
    assert not content or kind in content, f"{method} {path}: {kind} is not among {list(content)}"
    if kind == "application/json":
        schema = dict(resolve(content[kind]["schema"]), components=API["components"])
        jsonschema.validate(answer.json(), schema)


def ask(method, path, status, body=None, query="", headers=None, **values):
    values.setdefault("project", swarm.project)
    real = path.format(**values) + query
    answer = skep.request(swarm.keeper_host(0), method, real, body=body, headers=headers)
    assert answer.status == status, f"{method} {real} answered {answer.status}, not {status}: {answer.body[:200]}"
    check(method, path, answer)
    return answer


def ask_for_experts(nothing):
    """One row through one expert and back, and the update it gives."""
    experts = "/v1/projects/{project}/experts/"
    key = skep.Key()
    keeper = ask("GET", "/v1/health", 200).json()["keeper"]
    statement = {"project": swarm.project, "keeper": keeper, "caller": key.id, "time_s": int(time.time()), "nonce": "cd" * 32}
    envelope = key.envelope("application/vnd.skep.caller+json", statement)
    token = ask("POST", experts + "sessions", 201, body=envelope).json()["token"]
    session = {"Authorization": f"Bearer {token}"}
    ask("POST", experts + "sessions", 409, body=envelope)
    ask("POST", experts + "sessions", 400, body="{}")
    row = struct.pack("<32f", *range(32))

    def body(*names):
        header = json.dumps({name: {"dtype": "F32", "shape": [1, 32], "data_offsets": [128 * i, 128 * i + 128]}
                             for i, name in enumerate(names)}).encode()
        return struct.pack("<Q", len(header)) + header + row * len(names)

    ask("POST", experts + "forward", 200, body=body("ffn.0.0.0"))
    ask("POST", experts + "forward", 400, body=body("trunk"))
    ask("POST", experts + "forward", 404, body=body("ffn.0.0.0"), project=nothing)
    ask("POST", experts + "backward", 200, body=body("ffn.0.0.0.x", "ffn.0.0.0.dy"), headers=session)
    ask("POST", experts + "backward", 401, body=body("ffn.0.0.0.x", "ffn.0.0.0.dy"))
    ask("POST", experts + "backward", 404, body=body("ffn.0.0.9.x", "ffn.0.0.9.dy"), headers=session)
    assert ask("POST", experts + "updates", 200, body={"shards": ["ffn.0.0.0"]}, headers=session).json()["updates"]
    ask("POST", experts + "updates", 401, body={"shards": ["ffn.0.0.0"]})
    ask("POST", experts + "updates", 400, body="[", headers=session)


@tap.case
def every_answer_fits_its_description():
    skep.wait("a sealed version", lambda: swarm.versions(0) >= 1)
    nothing = "ab" * 32
    ask("GET", "/v1/health", 200)
    ask("GET", "/v1/record", 200)
    ask("GET", "/v1/directory", 200)
    ask("GET", "/v1/status", 200)
    metrics = ask("GET", "/metrics", 200).body.decode()
    reasons = API["components"]["schemas"]["Error"]["properties"]["error"]["properties"]["reason"]["enum"]
    for reason in reasons + ["other"]:
        assert f'reason="{reason}"' in metrics, reason
    assert metrics.count("reason=") == len(reasons) + 1, metrics
    ask("GET", "/v1/projects", 200)
    records = ask("GET", "/v1/directory", 200).json()
    ask("POST", "/v1/directory", 200, body=records)
    ask("POST", "/v1/directory", 400, body="{")
    manifest = ask("GET", "/v1/projects/{project}/manifest", 200)
    ask("GET", "/v1/projects/{project}/manifest", 404, project=nothing)
    ask("POST", "/v1/projects", 200, body=manifest.body)
    ask("POST", "/v1/projects", 400, body="{}")
    ask("GET", "/v1/projects/{project}/head", 200)
    version = ask("GET", "/v1/projects/{project}/shards/{shard}/versions/{version}", 200, shard="trunk", version="latest").json()
    ask("GET", "/v1/projects/{project}/shards/{shard}/versions/{version}", 200, shard="trunk", version="0")
    ask("GET", "/v1/projects/{project}/shards/{shard}/versions/{version}", 404, shard="trunk", version="123456")
    state = "/v1/projects/{project}/shards/{shard}/versions/{version}/state"
    number = str(version["version"])
    ask("GET", state, 200, shard="trunk", version=number)
    ask("GET", state, 206, shard="trunk", version=number, headers={"Range": "bytes=0-7"})
    ask("GET", state, 416, shard="trunk", version=number, headers={"Range": "bytes=999999999-"})
    ask("GET", state, 404, shard="trunk", version="123456")
    donor = swarm.status(0)["donors"][0]["donor"]
    receipts = ask("GET", "/v1/projects/{project}/receipts", 200, query=f"?donor={donor}").json()["receipts"]
    assert receipts
    ask("GET", "/v1/projects/{project}/receipts", 400, query="?donor=me")
    ask("POST", "/v1/projects/{project}/updates", 400, body=b"x")
    ask("GET", "/v1/updates/{hash}", 404, hash=nothing)
    assert ask("GET", "/v1/projects/{project}/evidence", 200, query=f"?donor={donor}").json()["wanted"] == []
    ask("GET", "/v1/projects/{project}/evidence", 400, query="?donor=me")
    ask("PUT", "/v1/evidence/{history}", 404, history=nothing, body=b"x")
    ask("PUT", "/v1/evidence/{history}", 400, history="me", body=b"x")
    ask("GET", "/v1/projects/{project}/audits", 200)
    ask("GET", "/v1/projects/{project}/audits", 404, project=nothing)
    import base64
    chunk = json.loads(base64.b64decode(manifest.json()["payload"]))["train"]["chunks"][0]
    data = ask("GET", "/v1/blobs/{hash}", 200, hash=chunk)
    ask("GET", "/v1/blobs/{hash}", 206, hash=chunk, headers={"Range": "bytes=1-2"})
    ask("GET", "/v1/blobs/{hash}", 404, hash=nothing)
    ask("PUT", "/v1/blobs/{hash}", 200, hash=chunk, body=data.body)
    ask("PUT", "/v1/blobs/{hash}", 400, hash=chunk, body=b"x")
    ask("PUT", "/v1/blobs/{hash}", 403, hash=skep.sha256(b"x"), body=b"x")
    ask_for_experts(nothing)
    ask("POST", "/v1/projects/{project}/messages", 200, body={"messages": []})
    ask("POST", "/v1/projects/{project}/messages", 400, body="[")


@tap.case
def every_described_operation_was_asked_for():
    described = {(path, method) for path, item in API["paths"].items() for method in item
                 if method in ("get", "put", "post", "delete")}
    assert described == asked, f"not asked for: {described - asked}; not described: {asked - described}"


with swarm:
    result = tap.main()
    if result:
        swarm.end(keep=True)
sys.exit(result)
