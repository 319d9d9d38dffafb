#!/usr/bin/python3
"""Three keepers that audit: what they found enters the trunk's seals, and one that comes later knows it from these. Prints TAP."""
import os
import sqlite3
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
import cheat
import skep

tap = skep.Tap()
swarm = skep.Swarm(keepers=3, donors=0, task=cheat.TASK)


def banned(i):
    return swarm.get(i, f"/v1/projects/{swarm.project}/audits").json()["banned"]


def reputations(i):
    with sqlite3.connect(swarm.path(f"keeper-{i}", "keeper.db")) as database:
        return sorted(database.execute("SELECT donor, earned, seen, merged, banned_at FROM reputation"))


@tap.case
def two_keepers_of_three_seal_the_ban_that_both_found():
    swarm.processes["keeper-2"].kill()
    cheat.start_donor(swarm, 0, skep.program("skepd"))
    cheat.start_cheat(swarm, 1)
    skep.wait("the ban in a seal", lambda: all(len(banned(i)) == 1 for i in range(2)))
    assert banned(0) == banned(1), (banned(0), banned(1))
    skep.wait("valid findings", lambda: any(earned > 0 for _, earned, _, _, _ in reputations(0)))


@tap.case
def a_keeper_that_comes_later_knows_it_from_the_seals():
    swarm.start_keeper(2)
    version = swarm.versions(0)
    skep.wait("the late keeper", lambda: swarm.versions(2) >= version)
    assert banned(2) == banned(0), (banned(2), banned(0))
    skep.wait("two rounds more", lambda: swarm.versions(2) >= version + 2)


@tap.case
def all_of_them_think_the_same_of_the_donors():
    swarm.stop_donors()
    skep.wait("one version", lambda: swarm.agreed() and all(swarm.status(i)["updates_waiting"] == 0 for i in range(3)))
    rows = [reputations(i) for i in range(3)]
    assert rows[0] == rows[1] == rows[2] and len(rows[0]) == 2, rows


with swarm:
    result = tap.main()
    if result:
        swarm.end(keep=True)
sys.exit(result)
