#!/usr/bin/python3
"""A keeper that audits: an honest donor's jobs are repeated, found valid and merged; one that turns its updates around is caught. Prints TAP."""
import base64
import contextlib
import glob
import json
import os
import re
import sqlite3
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
import cheat
import skep

tap = skep.Tap()
swarm = skep.Swarm(keepers=1, donors=0, task=cheat.TASK)


def audits():
    return swarm.get(0, f"/v1/projects/{swarm.project}/audits").json()


def found(verdict, **fields):
    return [one for one in audits()["audits"]
            if one["verdict"] == verdict and all(one[key] == value for key, value in fields.items())]


@tap.case
def an_honest_donors_jobs_are_found_valid_and_merged():
    cheat.start_donor(swarm, 0, skep.program("skepd"))
    skep.wait("three rounds", lambda: swarm.versions(0) >= 3)
    assert not found("invalid") and not found("unanswered"), audits()
    trunks = found("valid", shard="trunk")
    assert len(trunks) >= 3, audits()
    experts = [one for one in found("valid") if one["shard"] != "trunk"]
    assert len(experts) >= len(trunks), audits()
    print(f"# distance {max(one['distance'] for one in found('valid')):.4f}, overlap "
          f"{min(one['overlap'] for one in found('valid')):.4f}, {max(one['seconds'] for one in trunks):.2f} s, "
          f"{audits()['evidence_bytes']} bytes of histories")


@tap.case
def what_is_open_is_taken_up_by_the_next_keeper():
    swarm.processes["keeper-0"].kill()
    # as a kill between an update's row and its file leaves it: nobody was told that the update is here
    with contextlib.closing(sqlite3.connect(swarm.path("keeper-0", "keeper.db"))) as rows:
        names = [row[1] for row in rows.execute("PRAGMA table_info(audit)")]
        values = {"update_hash": "randomblob(32)", "ticket": "randomblob(32)", "verdict": "0"}
        rows.execute(f"INSERT INTO audit SELECT {', '.join(values.get(name, name) for name in names)} FROM audit LIMIT 1")
        rows.commit()
    swarm.start_keeper(0)
    version = swarm.versions(0)
    skep.wait("two rounds more", lambda: swarm.versions(0) >= version + 2)
    assert not found("invalid") and not found("unanswered"), audits()


def spoil_states():
    """Turns signs in the files of the newest versions, as a bad disk would: what the keeper serves and merges onto is in its memory."""
    with contextlib.closing(sqlite3.connect(swarm.path("keeper-0", "keeper.db"))) as rows:
        states = [row[0].hex() for row in rows.execute("SELECT state, max(version) FROM version GROUP BY shard")]
    for path in glob.glob(swarm.path("keeper-0", "blobs", "**"), recursive=True):
        if os.path.basename(path) in states and path not in spoiled:
            with open(path, "r+b") as file:
                data = bytearray(file.read())
                for at in range(len(data) // 4, len(data) // 2):
                    data[at] ^= 0x80
                file.seek(0)
                file.write(data)
            spoiled.add(path)


spoiled = set()


@tap.case
def a_keeper_whose_disk_changes_what_a_job_began_with_accuses_nobody():
    def noticed():
        spoil_states()
        return re.search(r"(held again|cannot begin).* has root", swarm.processes["keeper-0"].tail(1000))

    skep.wait("a state that is not what was sealed", noticed)
    version = swarm.versions(0)
    skep.wait("two rounds more", lambda: swarm.versions(0) >= version + 2)
    assert not found("invalid"), audits()


@tap.case
def the_donor_is_told_why_its_credit_comes_late():
    for command in ("status", "credit"):
        text = swarm.skep(command, "--dir", swarm.path("donor-0")).decode()
        assert "first 42 jobs of a new donor are repeated before they earn credit" in text, text


@tap.case
def a_donor_that_turns_its_updates_around_is_caught_and_refused():
    cheat.start_cheat(swarm, 1)
    skep.wait("an invalid update", lambda: found("invalid", shard="trunk"))
    caught = found("invalid", shard="trunk")[0]
    assert caught["distance"] > 1, caught
    skep.wait("a refusal", lambda: "no job gives" in swarm.processes["donor-1"].tail(1000))
    version = swarm.versions(0)
    skep.wait("the honest one goes on", lambda: swarm.versions(0) >= version + 2)
    assert all(one["donor"] == caught["donor"] for one in found("invalid")), audits()
    receipts = swarm.get(0, f"/v1/projects/{swarm.project}/receipts?donor={caught['donor']}&after=0&most=10").json()
    assert receipts["receipts"] == [], receipts


def seals():
    """Payloads of all seals of the trunk."""
    for version in range(1, swarm.versions(0) + 1):
        seal = swarm.get(0, f"/v1/projects/{swarm.project}/shards/trunk/versions/{version}").json()["seal"]
        yield json.loads(base64.b64decode(seal["payload"]))


def open_database():
    return sqlite3.connect(swarm.path("keeper-0", "keeper.db"))


def reputations():
    with open_database() as database:
        return sorted(database.execute("SELECT donor, earned, seen, merged, banned_at FROM reputation"))


@tap.case
def the_seals_say_what_was_found_and_a_keeper_that_knows_nothing_else_knows_the_ban():
    caught = found("invalid", shard="trunk")[0]["donor"]
    findings = [(seal["version"], one) for seal in seals() for one in seal["findings"] if one["verdict"] == "invalid"]
    assert [one["donor"] for _, one in findings] == [caught] * len(findings) and findings, findings
    banned = [{"donor": caught, "version": findings[0][0]}]
    assert audits()["banned"] == banned, audits()["banned"]
    receipts = [one for seal in seals() for one in seal["receipts"]]
    assert receipts and all(one["audited"] for one in receipts), receipts
    swarm.skep("pause", "--dir", swarm.path("donor-0"))  # it still shows what its last job began with
    skep.wait("nothing to wait", lambda: swarm.status(0)["updates_waiting"] == 0 and audits()["jobs_waiting"] == 0)
    swarm.stop_donors()
    version = swarm.versions(0)
    swarm.processes["keeper-0"].kill()
    before = reputations()
    assert len(before) == 2 and {row[0].hex() for row in before} >= {caught}, before
    with open_database() as database:
        database.execute("DELETE FROM reputation")
        database.execute("DELETE FROM audit")
    swarm.start_keeper(0)
    assert not found("invalid") and audits()["banned"] == banned, audits()
    assert reputations() == before, (before, reputations(), version, swarm.versions(0))
    swarm.processes["keeper-0"].kill()  # and once more, from the rows
    swarm.start_keeper(0)
    assert audits()["banned"] == banned and reputations() == before, (audits(), before, reputations())


with swarm:
    result = tap.main()
    if result:
        swarm.end(keep=True)
sys.exit(result)
