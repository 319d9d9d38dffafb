#!/usr/bin/python3
"""A donor that passes probation: from then on its updates are merged at once, and lots fall on some of its jobs. Prints TAP."""
import contextlib
import os
import re
import sqlite3
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
import cheat
import skep

if os.environ.get("SKEP_SEEN") and not skep.sanitized():
    print("1..0 # SKIP 42 audits take half a minute, and are seen in other builds, one of them sanitized")
    sys.exit(0)
tap = skep.Tap()
swarm = skep.Swarm(keepers=1, donors=0, task=cheat.TASK)


def totals():
    return swarm.get(0, f"/v1/projects/{swarm.project}/audits").json()["totals"]


def experts_version():
    with contextlib.closing(sqlite3.connect(swarm.path("keeper-0", "keeper.db"))) as rows:
        return rows.execute("SELECT max(version) FROM version WHERE shard != 'trunk'").fetchone()[0]


def passed():
    """How many audits the donor says it has passed; None as long as it does not know."""
    text = swarm.skep("status", "--dir", swarm.path("donor-0")).decode()
    found = re.search(r"(\d+) of 42 audits passed", text)
    return int(found[1]) if found else None


@tap.case
def the_donor_says_how_far_its_probation_is():
    cheat.start_donor(swarm, 0, skep.program("skepd"))
    skep.wait("a round", lambda: swarm.versions(0) >= 1)
    first = skep.wait("some audits", lambda: passed())
    assert 0 < first < 42, first
    skep.wait("more of them", lambda: passed() > first)


@tap.case
def who_passes_probation_is_merged_before_anybody_looks():
    skep.wait("a job that no lot fell on", lambda: totals()["not drawn"] > 0, 8 * skep.PATIENCE)
    trunk, expert = swarm.versions(0), experts_version()
    assert trunk >= 42, trunk
    skep.wait("ten rounds more, of an expert too", lambda: swarm.versions(0) >= trunk + 10 and experts_version() > expert)
    assert passed() == 42, passed()
    assert totals()["invalid"] == 0 and totals()["unanswered"] == 0, totals()


with swarm:
    result = tap.main()
    if result:
        swarm.end(keep=True)
sys.exit(result)
