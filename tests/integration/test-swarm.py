#!/usr/bin/python3
"""`skep swarm`, as packaging/quickstart starts it: trains, is interrupted, goes on, and says how it went. Prints TAP."""
import os
import re
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
import skep

tap = skep.Tap()
folder = tempfile.mkdtemp(prefix="skep-swarm-")
LAST = re.compile(r"bits_per_byte=([0-9.]+) rounds=(\d+) merged=(\d+) donors=(\d+) keepers_agree=(\d+)/(\d+)$")


def command(*more, name="swarm"):
    return [skep.program("skep"), "swarm", "--dir", os.path.join(folder, name), "--keepers", "4", "--donors", "2",
            "--task", os.path.join(folder, "task.yaml"), "--plain", *more]


def last_line(output):
    line = output.decode().strip().splitlines()[-1]
    match = LAST.match(line)
    assert match, output.decode()[-1500:]
    return [float(match.group(1))] + [int(group) for group in match.groups()[1:]]


@tap.case
def a_swarm_trains_until_enough_tokens_and_measures_the_result():
    with open(os.path.join(folder, "task.yaml"), "w") as file:
        file.write(skep.TINY_TASK.format(data="/usr/share/common-licenses/GPL-3"))
    done = subprocess.run(command("--tokens", "4000", "--minutes", "2"), capture_output=True, timeout=150)
    assert done.returncode == 0, (done.returncode, done.stdout[-1500:], done.stderr[-500:])
    bits, rounds, merged, donors, agree, keepers = last_line(done.stdout)
    assert 1 < bits < 8 and rounds >= 1 and merged >= 2 and donors >= 1 and agree == keepers == 4, last_line(done.stdout)


@tap.case
def interrupted_it_stops_cleanly_and_goes_on_where_it_was():
    process = subprocess.Popen(command(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
    first = 0
    for line in process.stdout:
        match = re.search(rb"round (\d+)", line)
        number = int(match.group(1)) if match else 0
        first = first or number
        if number > first:
            break
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does on Ctrl-C
    output, errors = process.communicate(timeout=60)
    assert b"starts again" not in output, output[-1000:]
    assert process.returncode == 0, (process.returncode, output[-1000:], errors[-500:])
    bits, rounds, _, _, agree, keepers = last_line(output)
    assert first >= 1 and rounds > first and agree == keepers, (first, output[-500:])


@tap.case
def killed_it_takes_its_members_along_and_goes_on_where_it_was():
    process = subprocess.Popen(command(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    for line in process.stdout:
        if re.search(rb"round \d+", line):
            break
    process.kill()
    process.communicate(timeout=60)
    done = subprocess.run(command("--minutes", "0.1"), capture_output=True, timeout=90)
    assert done.returncode == 0, (done.returncode, done.stdout[-1500:], done.stderr[-500:])
    _, rounds, _, _, agree, keepers = last_line(done.stdout)
    assert rounds >= 1 and agree == keepers, last_line(done.stdout)


@tap.case
def another_number_of_keepers_is_refused():
    done = subprocess.run(command("--keepers", "2"), capture_output=True, timeout=30)
    assert done.returncode == 2 and b"has 4; start it with --keepers 4" in done.stderr, (done.returncode, done.stderr)


@tap.case
def one_keeper_alone_is_a_swarm_too():
    done = subprocess.run(command("--keepers", "1", "--tokens", "3000", "--minutes", "2", name="alone"), capture_output=True,
                          timeout=150)
    assert done.returncode == 0, (done.returncode, done.stdout[-1500:], done.stderr[-500:])
    bits, rounds, merged, _, agree, keepers = last_line(done.stdout)
    assert 1 < bits < 8 and rounds >= 1 and merged >= 2 and agree == keepers == 1, last_line(done.stdout)


@tap.case
def the_same_folder_cannot_be_used_twice_at_once():
    process = subprocess.Popen(command(), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.readline()
    done = subprocess.run(command("--minutes", "1"), capture_output=True, timeout=30)
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert done.returncode == 7 and b"running" in done.stderr, (done.returncode, done.stderr)


@tap.case
def a_wrong_option_is_named():
    done = subprocess.run([skep.program("skep"), "swarm", "--dir", folder, "--keepers", "0"], capture_output=True, timeout=30)
    assert done.returncode == 2 and b"--keepers is 0; allowed: 1 to 16" in done.stderr, done.stderr


result = tap.main()
if result:
    print(f"# what is left lies in {folder}")
else:
    skep.shutil.rmtree(folder)
sys.exit(result)
