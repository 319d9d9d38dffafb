#!/usr/bin/python3
"""A short attack grid: real training of a small classifier, some of whose donors lie, with the real code of donors, merge, standing and
trust (tests/bench/attack). What the full grid measures is in ARCHITECTURE.md; here each defence must do what it is there for. Prints TAP."""
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
import skep

if os.environ.get("SKEP_SEEN"):
    print("1..0 # SKIP the same in every build, and seen in another")
    sys.exit(0)
tap = skep.Tap()
CELL = os.path.join(skep.BUILD, "tests/bench/attack/attack-cell")
SMALL = ["--donors", "8", "--rounds", "40", "--set", "dim=16", "--set", "hidden=32", "--set", "layers=1"]
BARE = ["--forgets", "--set", "clip_permille=0", "--set", "overlap_permille=0"]
known = {}


def cell(attack="none", liars=2, more=()):
    """The figures of one cell, computed once."""
    key = (attack, liars, tuple(more))
    if key not in known:
        command = [CELL, *SMALL, "--attack", attack, "--liars", str(0 if attack == "none" else liars), *more]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=dict(os.environ, OPENBLAS_NUM_THREADS="1"))
        known[key] = {name: float(value) for name, value in (word.split("=") for word in done.stdout.split())}
    return known[key]


def near_honest(attack, most, **how):
    honest = cell()["right"]
    right = cell(attack, **how)["right"]
    assert honest > 0.6, f"the honest run is right in {honest}"
    assert right > honest - most, f"{attack}: right in {right}, without liars in {honest}"


@tap.case
def a_bare_mean_is_destroyed_by_two_liars_of_eight():
    honest = cell(more=BARE)["right"]
    assert honest > 0.6, honest
    assert cell("sign-flip-1000", more=BARE)["right"] < 0.2


@tap.case
def by_default_it_is_hardly_hurt_by_loud_liars():
    near_honest("sign-flip-1000", 0.05)
    near_honest("codebook", 0.05)


@tap.case
def nor_by_quiet_ones_that_search_for_the_worst():
    near_honest("ipm", 0.05)


@tap.case
def updates_that_are_no_numbers_are_refused_and_do_no_harm():
    near_honest("nan", 0.05)
    assert cell("nan")["refused"] == 2 * 40 * 5  # two liars, 40 rounds, a trunk and four experts


@tap.case
def copies_count_once():
    # four of eight under one liar's hand weigh as one, and if nobody looks for copies they are the end of the model
    gone = cell("nan", liars=4)["right"]
    assert gone > 0.5, gone
    assert cell("sybil", liars=4)["right"] > gone - 0.1, (cell("sybil", liars=4), gone)
    assert cell("sybil", liars=4, more=["--set", "overlap_permille=0"])["right"] < 0.3


@tap.case
def with_audits_half_of_the_donors_may_lie_and_only_they_are_banned():
    for attack in ("label-flip", "mimic"):
        result = cell(attack, liars=4, more=["--audits"])
        assert result["banned"] == 4 and result["lies"] == 1 and result["false_bans"] == 0, (attack, result)
        near_honest(attack, 0.1, liars=4, more=["--audits"])


@tap.case
def trusted_donors_that_turn_are_found_by_the_lot_or_by_what_the_merge_sees_of_them():
    result = cell("sleeper", more=["--audits", "--passed", "60"])
    assert result["banned"] == 2 and result["lies"] <= 10 and result["false_bans"] == 0, result
    near_honest("sleeper", 0.05, more=["--audits", "--passed", "60"])


sys.exit(tap.main())
