#!/usr/bin/python3
"""A donor in remote mode (client/remote) with real keepers: it holds only the trunk, and trunk and experts learn all the same. Prints
TAP."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
import skep

tap = skep.Tap()
swarm = skep.Swarm(keepers=2, donors=0)


def start_donor():
    words = [os.path.join(skep.BUILD, "tests/bench/mnist-trainer"), "--dir", swarm.path("donor"), "--project", swarm.project,
             "--bootstrap", ",".join(f"{swarm.keeper_host(i)}:{skep.PORT}" for i in range(2)), "--trainers", "3", "--period", "300",
             "--delay", "5"]
    swarm.processes["trainer"] = skep.Process(words, swarm.path("trainer.log"))


def said():
    """What the donor said last, as numbers by name, and the line's first word."""
    with open(swarm.path("trainer.log"), errors="replace") as file:
        lines = [line for line in file.read().split("\n")[:-1] if line.startswith(("at ", "end "))]
    if not lines:
        return None, {}
    word, *parts = lines[-1].split()
    return word, {name: float(value) for name, value in (part.split("=") for part in parts)}


@tap.case
def trunk_and_experts_get_new_versions_from_a_donor_that_holds_the_trunk_alone():
    start_donor()
    skep.wait("three versions of the trunk on both keepers", lambda: min(swarm.versions(i) for i in range(2)) >= 3)
    skep.wait("as many versions of experts", lambda: swarm.status(0)["versions_sum"] - swarm.versions(0) >= 3)
    states = os.listdir(swarm.path("donor", "states"))
    assert states
    for name in states:
        with open(swarm.path("donor", "states", name), "rb") as file:
            assert b"embed.token" in file.read(4096), f"{name} is no trunk"


@tap.case
def a_keeper_that_comes_back_is_found_again_and_training_goes_on():
    swarm.processes["keeper-0"].kill()
    swarm.start_keeper(0)
    before = said()[1]["trunk_version"]
    skep.wait("the donor works on two more versions of the trunk", lambda: said()[1]["trunk_version"] >= before + 2)
    skep.wait("both keepers have it", lambda: min(swarm.versions(i) for i in range(2)) >= before + 2)


@tap.case
def the_donor_ends_on_request_and_says_what_it_did():
    assert swarm.processes["trainer"].stop() == 0, swarm.processes["trainer"].tail()
    word, counts = said()
    assert word == "end", word
    assert counts["batches"] > 0 and counts["trunk_updates"] > 0 and counts["expert_updates"] > 0, counts


with swarm:
    result = tap.main()
    if result:
        swarm.end(keep=True)
sys.exit(result)
