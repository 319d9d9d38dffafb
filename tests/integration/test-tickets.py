#!/usr/bin/python3
"""Keepers that hold experts but not the trunk check tickets too: they ask a keeper of the trunk for its seals. Prints TAP."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
import skep

tap = skep.Tap()
# one replica of each shard: every keeper but one is without the trunk; all rows in every job, so that every expert gets updates
task = skep.TINY_TASK.replace("rows_per_token: 1", "rows_per_token: 2").replace("donor_rows: 1", "donor_rows: 2")
assert "donor_rows: 2" in task and "rows_per_token: 2" in task
swarm = skep.Swarm(keepers=3, donors=1, task=task + "replicas: 1\n")


def heads(i):
    return swarm.get(i, f"/v1/projects/{swarm.project}/head").json()["shards"]


@tap.case
def experts_get_new_versions_on_keepers_without_the_trunk():
    without = [i for i in range(3) if "trunk" not in heads(i) and heads(i)]
    assert without, [list(heads(i)) for i in range(3)]
    skep.wait("three versions of experts on keepers without the trunk",
              lambda: all(max(shard["version"] for shard in heads(i).values()) >= 3 for i in without))
    for i in without:
        assert "trunk" not in heads(i)


@tap.case
def a_ticket_of_another_is_refused_by_them():
    swarm.stop_donors()
    i = next(i for i in range(3) if "trunk" not in heads(i) and heads(i))
    keeper = next(k for k in range(3) if "trunk" in heads(k))
    trunk = heads(keeper)["trunk"]["version"]
    name, head = next(iter(heads(i).items()))
    key, other = skep.Key(), skep.Key()
    beacon = swarm.get(keeper, f"/v1/projects/{swarm.project}/shards/trunk/versions/{trunk}").json()["payload"]

    def hand_in(owner, version):
        statement = {"project": swarm.project, "shard": name, "base_version": head["version"], "base_state": head["root"],
                     "donor": key.id, "trunk_version": version, "ticket": skep.ticket(beacon, owner.id, version), "remote": False,
                     "stamp": skep.stamp(swarm.project, key.id, 1), "body": skep.sha256(b"body"), "before": "0" * 64, "after": "0" * 64,
                     "tokens": skep.TINY_TOKENS, "loss_first": 1.0, "loss_last": 1.0, "shards": []}
        file = skep.update_file(key.envelope("application/vnd.skep.update+json", statement), b"body")
        answer = swarm.post(i, f"/v1/projects/{swarm.project}/updates", file, headers={"Content-Type": "application/octet-stream"})
        return answer.json()["error"]["reason"]

    skep.wait("the newest version of the trunk is known there", lambda: hand_in(other, trunk) != "trunk-ahead")
    assert hand_in(other, trunk) == "ticket"
    assert hand_in(key, trunk) in ("truncated", "tensor-count")  # everything before the body is right
    assert hand_in(key, trunk + 7) == "trunk-ahead"


with swarm:
    result = tap.main()
    if result:
        swarm.end(keep=True)
sys.exit(result)
