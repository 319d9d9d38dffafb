#!/usr/bin/python3
"""What the real programs do with bytes they should not believe: one clear sentence, a defined status, nothing lost. Prints TAP."""
import json
import os
import resource
import socket
import ssl
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
import skep

tap = skep.Tap()
swarm = skep.Swarm(keepers=2, donors=0)
UPDATE = "application/vnd.skep.update+json"
TOKENS = skep.TINY_TOKENS  # of a job


def head(shard="trunk", i=0):
    return swarm.get(i, f"/v1/projects/{swarm.project}/head").json()["shards"][shard]


def statement(key, body, **changed):
    """An update statement for version 0 of the trunk that is right in everything but what is changed."""
    fields = {"project": swarm.project, "shard": "trunk", "base_version": 0, "donor": key.id, "remote": False, "before": "0" * 64,
              "after": "0" * 64, "shards": [],
              "body": skep.sha256(body), "tokens": TOKENS, "loss_first": 1.0, "loss_last": 1.0}
    fields.update(changed)
    if "base_state" not in fields:
        fields["base_state"] = head()["root"]
    version = fields.setdefault("trunk_version", fields["base_version"])
    answer = swarm.get(0, f"/v1/projects/{swarm.project}/shards/trunk/versions/{version}")
    beacon = answer.json()["payload"] if answer.status == 200 else "0" * 64
    fields.setdefault("ticket", skep.ticket(beacon, key.id, version))
    if "stamp" not in fields:
        fields["stamp"] = skep.stamp(swarm.project, key.id, 1)
    return fields


def key_of_project_before_ours():
    """A keeper loads its projects in order of their ids, and what is loaded last has nobody to wake it by accident."""
    key = skep.Key()
    while key.id > swarm.project:
        key = skep.Key()
    return key


def post_update(file, i=0):
    return swarm.post(i, f"/v1/projects/{swarm.project}/updates", file, headers={"Content-Type": "application/octet-stream"})


def refused(answer, status, code, *words, reason=None):
    assert answer.status == status, (answer.status, answer.body)
    found, message = answer.error()
    assert found == code, (found, message)
    if reason is not None:
        assert answer.json()["error"]["reason"] == reason, answer.body
    assert message and "\n" not in message, message
    for word in words:
        assert word in message, (word, message)


@tap.case
def a_wrong_signature_is_refused_before_anything_else():
    key = skep.Key()
    envelope = key.envelope(UPDATE, statement(key, b"body"))
    envelope["signatures"][0]["sig"] = skep.Key().envelope(UPDATE, b"other")["signatures"][0]["sig"]
    refused(post_update(skep.update_file(envelope, b"body")), 400, "signature")


@tap.case
def a_statement_signed_by_somebody_else_is_refused():
    key = skep.Key()
    refused(post_update(skep.update_file(skep.Key().envelope(UPDATE, statement(key, b"body")), b"body")), 400, "signature")


@tap.case
def a_body_that_is_not_the_one_signed_is_refused():
    key = skep.Key()
    refused(post_update(skep.update_file(key.envelope(UPDATE, statement(key, b"body")), b"else")), 400, "hash", reason="body-hash")


@tap.case
def a_truncated_update_is_refused():
    key = skep.Key()
    whole = skep.update_file(key.envelope(UPDATE, statement(key, b"")), b"")
    refused(post_update(whole), 400, "format")
    refused(post_update(whole[:20]), 400, "format")
    refused(post_update(b""), 400, "format")


@tap.case
def an_update_for_an_unknown_shard_is_refused():
    key = skep.Key()
    file = skep.update_file(key.envelope(UPDATE, statement(key, b"body", shard="ffn.9.9.9")), b"body")
    refused(post_update(file), 404, "not-found", "ffn.9.9.9", reason="no-such-shard")


@tap.case
def an_update_from_the_future_or_a_wrong_base_is_refused():
    key = skep.Key()
    file = skep.update_file(key.envelope(UPDATE, statement(key, b"body", base_version=7)), b"body")
    refused(post_update(file), 409, "state", "7", reason="base-ahead")
    file = skep.update_file(key.envelope(UPDATE, statement(key, b"body", base_state="ab" * 32)), b"body")
    refused(post_update(file), 400, "hash", reason="base-state")


@tap.case
def an_update_for_another_project_is_refused():
    key = skep.Key()
    file = skep.update_file(key.envelope(UPDATE, statement(key, b"body", project="cd" * 32)), b"body")
    refused(post_update(file), 403, "refused", reason="other-project")


@tap.case
def an_oversized_body_is_refused_without_being_read():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    with socket.create_connection((swarm.keeper_host(0), skep.PORT), timeout=20) as plain:
        with context.wrap_socket(plain) as connection:
            path = f"/v1/projects/{swarm.project}/updates"
            size = 1 << 40
            connection.sendall(f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {size}\r\n\r\n".encode() + b"x" * 1000)
            answer = connection.recv(4096)
    assert answer.startswith(b"HTTP/1.1 413"), answer


@tap.case
def a_chunk_with_a_wrong_hash_is_refused_and_an_unnamed_one_too():
    manifest = json.loads(skep.base64.b64decode(swarm.get(0, f"/v1/projects/{swarm.project}/manifest").json()["payload"]))
    chunk = manifest["train"]["chunks"][0]
    refused(skep.request(swarm.keeper_host(0), "PUT", f"/v1/blobs/{chunk}", body=b"not it"), 400, "hash", chunk[:8])
    stranger = skep.sha256(b"stranger")
    refused(skep.request(swarm.keeper_host(0), "PUT", f"/v1/blobs/{stranger}", body=b"stranger"), 403, "refused")
    right = swarm.get(0, f"/v1/blobs/{chunk}")
    assert right.status == 200 and skep.sha256(right.body) == chunk


@tap.case
def ranges_are_honoured_or_refused():
    path = f"/v1/projects/{swarm.project}/shards/trunk/versions/0/state"
    whole = swarm.get(0, path).body
    part = swarm.get(0, path, headers={"Range": "bytes=10-19"})
    assert part.status == 206 and part.body == whole[10:20], part.status
    beyond = swarm.get(0, path, headers={"Range": f"bytes={len(whole)}-"})
    assert beyond.status == 416, beyond.status


@tap.case
def a_manifest_with_an_unknown_field_is_refused():
    key = skep.Key()
    envelope = swarm.get(0, f"/v1/projects/{swarm.project}/manifest").json()
    manifest = json.loads(skep.base64.b64decode(envelope["payload"]))
    manifest["project"] = key.id
    manifest["colour"] = "blue"
    answer = swarm.post(0, "/v1/projects", key.envelope("application/vnd.skep.manifest+json", manifest))
    refused(answer, 400, "format", "colour")


@tap.case
def a_task_file_with_a_wrong_field_is_reported_by_line():
    path = swarm.path("wrong.yaml")
    with open(path, "w") as file:
        file.write("name: wrong\ndata:\n  file: text\nmodel:\n  dim: 32\n  wheels: 4\n")
    swarm.skep("project", "publish", path, "--keeper", f"{swarm.keeper_host(0)}:{skep.PORT}", status=4)
    assert "wrong.yaml:6" in swarm.stderr and "wheels" in swarm.stderr, swarm.stderr
    with open(path, "w") as file:
        file.write("name: wrong\ndata:\n  file: text\nmodel:\n  route: sideways\n")
    swarm.skep("project", "publish", path, "--keeper", f"{swarm.keeper_host(0)}:{skep.PORT}", status=4)
    for word in ("wrong.yaml:5", "sideways", "document", "token"):
        assert word in swarm.stderr, swarm.stderr


@tap.case
def what_is_not_there_is_a_404_and_a_wrong_method_a_405():
    refused(swarm.get(0, "/v1/nothing"), 404, "not-found")
    refused(swarm.get(0, f"/v1/projects/{'ab' * 32}/head"), 404, "not-found")
    refused(swarm.get(0, f"/v1/projects/{swarm.project}/shards/trunk/versions/99"), 404, "not-found")
    assert skep.request(swarm.keeper_host(0), "PUT", "/v1/health", body=b"x").status == 405


@tap.case
def a_port_in_use_ends_with_status_7_and_a_sentence():
    command = [skep.program("skep-keeper"), "--dir", swarm.path("other"), "--no-dht",
               "--listen", f"{swarm.keeper_host(0)}:{skep.PORT}"]
    done = skep.subprocess.run(command, capture_output=True, timeout=20)
    text = done.stderr.decode()
    assert done.returncode == 7 and str(skep.PORT) in text, (done.returncode, text)
    command[2] = swarm.path("keeper-0")
    done = skep.subprocess.run(command, capture_output=True, timeout=20)
    assert done.returncode == 7 and "keeper-0" in done.stderr.decode(), (done.returncode, done.stderr)


@tap.case
def keepers_that_do_not_answer_give_status_3_and_a_sentence():
    nobody = f"{swarm.net}.250:{skep.PORT}"
    swarm.skep("eval", "--project", swarm.project, "--bootstrap", nobody, status=3)
    assert nobody.split(":")[0] in swarm.stderr or "keeper" in swarm.stderr, swarm.stderr


@tap.case
def a_full_disk_is_a_507_and_nothing_acknowledged_is_lost():
    before = swarm.versions(1)
    swarm.processes["keeper-1"].stop()
    # No file of this process may grow beyond 40 kB: what a full disk looks like to it.
    swarm.start_keeper(1, limits=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (40960, 40960)))
    key = key_of_project_before_ours()
    envelope = json.loads(json.dumps(swarm.get(1, f"/v1/projects/{swarm.project}/manifest").json()))
    manifest = json.loads(skep.base64.b64decode(envelope["payload"]))
    manifest["project"] = key.id
    manifest["name"] = "x" * 60
    answer = swarm.post(1, "/v1/projects", key.envelope("application/vnd.skep.manifest+json", manifest))
    refused(answer, 507, "full")
    assert swarm.get(1, "/v1/health").status == 200
    swarm.processes["keeper-1"].stop()
    swarm.start_keeper(1)
    assert swarm.versions(1) == before
    assert swarm.get(1, f"/v1/projects/{swarm.project}/manifest").json() == envelope


def real_body():
    """The body of an update that a donor trained and the newest version merged: right for the trunk whoever signs it."""
    seal = swarm.get(0, f"/v1/projects/{swarm.project}/shards/trunk/versions/latest").json()["seal"]
    update = json.loads(skep.base64.b64decode(seal["payload"]))["receipts"][0]["update"]
    file = swarm.get(0, f"/v1/updates/{update}").body
    return file[12 + int.from_bytes(file[8:12], "little"):]


def fresh_update(key, body, i=0, **changed):
    """An update of `key` that the trunk takes now."""
    base = head(i=i)
    fields = {"base_version": base["version"], "base_state": base["root"]}
    fields.update(changed)
    return skep.update_file(key.envelope(UPDATE, statement(key, body, **fields)), body)


def merged_for(key, i):
    status = swarm.status(i)
    return status and any(donor["donor"] == key.id for donor in status["donors"])


def quiet():
    """Both keepers agree and nothing waits."""
    return swarm.agreed() and all(swarm.status(i)["updates_waiting"] == 0 for i in range(2))


@tap.case
def a_second_update_of_a_donor_for_the_same_version_is_refused():
    swarm.start_donor(0)
    skep.wait("three versions with updates in them", lambda: swarm.versions(0) >= 3)
    swarm.stop_donors()
    body = real_body()
    key = skep.Key()
    base = head()
    fields = {"base_version": base["version"], "base_state": base["root"]}
    first = fresh_update(key, body, **fields)
    assert post_update(first).status == 201
    assert post_update(first).status == 200  # the same again is no second one
    answer = post_update(fresh_update(key, body, loss_first=2.0, **fields))
    refused(answer, 409, "duplicate", "already")
    # The round may have closed in between: with one donor in the last versions, one update fills it.
    assert answer.json()["error"]["reason"] in ("duplicate", "replay"), answer.body


@tap.case
def a_donor_that_shows_each_keeper_another_update_does_not_stop_the_shard():
    body = real_body()
    skep.wait("nothing left to merge", quiet)
    before = swarm.versions(0)
    key = skep.Key()
    base = head()
    nonce = skep.stamp(swarm.project, key.id, 1)
    rivals = [fresh_update(key, body, base_version=base["version"], base_state=base["root"], stamp=nonce, loss_first=1.0 + i)
              for i in range(2)]
    assert post_update(rivals[0], 0).status == 201
    answer = post_update(rivals[1], 1)
    assert answer.status == 201, answer.body
    # Whoever leads proposes its own: the other keeper can vote for it only with both beside each other.
    skep.wait("one of the two is merged", lambda: merged_for(key, 0) and merged_for(key, 1), 30)
    skep.wait("and the other one waits no longer", quiet)
    assert swarm.versions(0) > before
    held = [[swarm.get(i, f"/v1/updates/{skep.sha256(file)}").status for file in rivals] for i in range(2)]
    assert held in ([[200, 404]] * 2, [[404, 200]] * 2), held


@tap.case
def an_update_with_another_ticket_or_other_tokens_or_no_stamp_is_refused():
    body = real_body()
    refused(post_update(fresh_update(skep.Key(), body, ticket="0" * 64)), 403, "refused", reason="ticket")
    refused(post_update(fresh_update(skep.Key(), body, tokens=TOKENS + 1)), 403, "refused", str(TOKENS), reason="tokens")
    key = skep.Key()
    bad = skep.stamp(swarm.project, key.id, 1) + 1
    while skep.is_stamp(swarm.project, key.id, 1, bad):
        bad += 1
    refused(post_update(fresh_update(key, body, stamp=bad)), 403, "refused", "zero bits", reason="stamp")
    text = swarm.get(0, "/metrics").body.decode()
    for reason in ("ticket", "tokens", "stamp", "signature", "body-hash"):
        line = f'skep_updates_refused_total{{project="{swarm.project}",reason="{reason}"}} '
        assert line in text and int(text.split(line)[1].split("\n")[0]) > 0, text


@tap.case
def an_update_from_a_version_too_old_is_refused():
    key = skep.Key()
    body = real_body()
    skep.wait("nothing left to merge", quiet)
    oldest = swarm.versions(0) - 2
    assert oldest > 0, oldest
    root = swarm.get(0, f"/v1/projects/{swarm.project}/shards/trunk/versions/0").json()["root"]
    file = fresh_update(key, body, base_version=0, base_state=root)
    refused(post_update(file), 409, "stale", "trunk", "from version 0,", f"merged is {oldest}", reason="base-stale")


def disk_room(i, size):
    """No file of keeper i may grow beyond `size` bytes: what a full disk looks like to it. RLIM_INFINITY: there is room again."""
    _, hard = resource.prlimit(swarm.processes[f"keeper-{i}"].child.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(swarm.processes[f"keeper-{i}"].child.pid, resource.RLIMIT_FSIZE, (size, hard))


def put_blob(i, data):
    return skep.request(swarm.keeper_host(i), "PUT", f"/v1/blobs/{skep.sha256(data)}", body=data)


def project_with_chunk(i, data):
    """A project of its own on keeper i, whose first data chunk are these bytes: nobody else can bring them."""
    key = key_of_project_before_ours()
    manifest = json.loads(skep.base64.b64decode(swarm.get(i, f"/v1/projects/{swarm.project}/manifest").json()["payload"]))
    manifest["project"] = key.id
    manifest["train"]["chunks"][0] = skep.sha256(data)
    assert swarm.post(i, "/v1/projects", key.envelope("application/vnd.skep.manifest+json", manifest)).status == 201
    return key.id


@tap.case
def updates_and_chunks_that_meet_a_full_disk_are_a_507_and_those_acknowledged_stay():
    body = real_body()
    chunk = os.urandom(4096)
    other = project_with_chunk(1, chunk)
    kept, late, rowless = (fresh_update(skep.Key(), body, i=1) for _ in range(3))
    before = swarm.versions(1)
    assert post_update(kept, i=1).status == 201
    disk_room(1, 1024)
    refused(post_update(late, i=1), 507, "full")
    refused(put_blob(1, chunk), 507, "full")
    # The file lies there already, so only the database has to grow.
    name = skep.sha256(rowless)
    with open(swarm.path("keeper-1", "blobs", name[:2], name), "wb") as file:
        file.write(rowless)
    refused(post_update(rowless, i=1), 507, "full")
    assert swarm.get(1, "/v1/health").status == 200
    swarm.processes["keeper-1"].stop()
    swarm.start_keeper(1)
    assert swarm.versions(1) >= before
    assert swarm.get(1, f"/v1/projects/{other}/manifest").status == 200
    assert post_update(kept, i=1).status == 200
    assert swarm.get(1, f"/v1/updates/{skep.sha256(kept)}").body == kept
    assert post_update(late, i=1).status == 201
    assert post_update(rowless, i=1).status == 201
    assert put_blob(1, chunk).status == 201
    assert put_blob(1, chunk).status == 200


@tap.case
def an_update_acknowledged_just_before_kill_9_is_still_there():
    body = real_body()
    skep.wait("nothing left to merge", quiet)
    key = skep.Key()
    file = fresh_update(key, body, i=1)
    swarm.processes["keeper-0"].stop()  # so that nobody can give it back
    answer = post_update(file, i=1)
    swarm.processes["keeper-1"].kill()
    assert answer.status == 201, answer.body
    swarm.start_keeper(1)
    again = post_update(file, i=1)
    assert again.status == 200, (again.status, again.body)
    assert swarm.get(1, f"/v1/updates/{skep.sha256(file)}").body == file
    swarm.start_keeper(0)
    skep.wait("the update is merged", lambda: merged_for(key, 0) and merged_for(key, 1))


@tap.case
def a_command_with_an_argument_too_many_or_too_few_says_so():
    for words, sentence in [
        (["eval", "it"], 'skep eval: the argument "it" is one too many'),
        (["plan", "a.yaml", "b.yaml"], 'skep plan: the argument "b.yaml" is one too many'),
        (["attach", "--dir", "/none"], "skep attach: an argument is missing"),
        (["project", "publish"], "skep publish: an argument is missing"),
    ]:
        swarm.skep(*words, status=2)
        assert swarm.stderr.startswith(f"{sentence}\nusage: "), swarm.stderr


with swarm:
    result = tap.main()
    if result:
        swarm.end(keep=True)
sys.exit(result)
