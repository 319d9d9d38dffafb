#!/usr/bin/python3
"""The worker, stopped and started again at any moment, ends with the same bits; and what it does with files it should not believe.
Prints TAP."""
import hashlib
import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib"))
import skep

tap = skep.Tap()
random = skep.seed()
MAKE_JOB = os.path.join(skep.BUILD, "tests/integration/make-job")
FOLDER = skep.tempfile.mkdtemp(prefix="skep-worker-")

# Updates of wide experts take a good part of a step, so that interruptions fall into all of its parts.
WIDE_TASK = """\
name: wide
data:
  file: {data}
  holdout_every: 20
model:
  dim: 64
  hidden: 1024
  heads: 2
  layers: 2
  context: 32
  prefix: 8
  rows: 2
  columns: 3
  experts_per_token: 2
training:
  steps: {steps}
  batch: 2
  slice_chunks: 2
chunk_bytes: 4096
"""


class Worker:
    """One run of skep-worker; its events come as they are said."""

    def __init__(self, job, **more):
        self.child = subprocess.Popen([skep.program("skep-worker"), job], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                      stderr=subprocess.PIPE, **more)
        self.events = []
        self.log = ""

    def event(self):
        """The next one, or None at the end."""
        line = self.child.stdout.readline()
        if not line:
            return None
        self.events.append(json.loads(line))
        return self.events[-1]

    def wait_for(self, kind):
        while True:
            event = self.event()
            assert event is not None, (kind, self.events, self.child.stderr.read())
            if event["event"] == kind:
                return event

    def end(self):
        """Reads to the end; (exit status, last event)."""
        while self.event() is not None:
            pass
        self.log = self.child.stderr.read().decode()
        self.child.stdin.close()
        status = self.child.wait()
        self.child.stdout.close()
        self.child.stderr.close()
        return status, self.events[-1] if self.events else None


def make_job(name, task=skep.TINY_TASK, **changed):
    """A fresh job; the path of its job file."""
    folder = os.path.join(FOLDER, name)
    os.makedirs(folder)
    path = os.path.join(folder, "task.yaml")
    with open(path, "w") as file:
        file.write(task.format(data="/usr/share/common-licenses/GPL-3", **changed))
    subprocess.run([MAKE_JOB, folder, path], check=True)
    return os.path.join(folder, "job", "job.json")


def edit_job(path, change):
    with open(path) as file:
        job = json.load(file)
    change(job)
    with open(path, "w") as file:
        json.dump(job, file)


def results(path):
    folder = os.path.dirname(path)
    found = {}
    for name in os.listdir(folder):
        if name.rsplit(".", 1)[-1] in ("body", "moments", "residual"):
            with open(os.path.join(folder, name), "rb") as file:
                found[name] = hashlib.sha256(file.read()).hexdigest()
    return found


def start_over(path):
    for name in os.listdir(os.path.dirname(path)):
        if name != "job.json":
            os.unlink(os.path.join(os.path.dirname(path), name))


def run(path):
    worker = Worker(path)
    status, last = worker.end()
    return worker, status, last


def finish(path):
    """Runs the job to its end; what it leaves, and its last event without its memory."""
    worker, status, last = run(path)
    assert status == 0 and last["event"] == "done", (status, last, worker.log)
    found = results(path)
    assert found
    last.pop("peak_bytes")
    return found, last


def checkpoint_of(path):
    return os.path.join(os.path.dirname(path), "checkpoint")


def interrupt(path, seconds, number=signal.SIGTERM):
    """Runs the job and interrupts it after so many seconds; its last event."""
    worker = Worker(path)
    timer = threading.Timer(seconds, worker.child.send_signal, [number])
    timer.start()
    status, last = worker.end()
    timer.cancel()
    if status == -signal.SIGTERM:  # it had not come so far as to ask for signals
        return {"event": "stopped", "step": 0}
    if number == signal.SIGTERM:
        assert status == 0 and last["event"] in ("stopped", "done"), (status, last, worker.log)
    return last


@tap.case
def a_job_interrupted_at_random_moments_ends_with_the_same_bits():
    path = make_job("wide", WIDE_TASK, steps=60)
    begun = time.monotonic()
    expected = finish(path)
    took = time.monotonic() - begun
    start_over(path)
    steps = []
    while True:
        last = interrupt(path, random.uniform(0.02, took / 4))
        if last["event"] == "done":
            break
        steps.append(last["step"])
    print(f"# interrupted after steps {steps}")
    assert len(set(steps)) > 2, steps
    last.pop("peak_bytes")
    assert (results(path), last) == expected


@tap.case
def kill_9_loses_nothing_but_time():
    path = make_job("killed", WIDE_TASK, steps=30)
    begun = time.monotonic()
    expected = finish(path)
    took = time.monotonic() - begun
    start_over(path)
    while interrupt(path, took / 3)["step"] == 0:
        pass
    interrupt(path, random.uniform(0.01, took / 3), signal.SIGKILL)
    assert finish(path) == expected


@tap.case
def a_checkpoint_is_written_every_so_often():
    path = make_job("often", skep.TINY_TASK.replace("steps: 4", "steps: 20000"))
    edit_job(path, lambda job: job.update(checkpoint_s=1))
    worker = Worker(path)
    skep.wait("a checkpoint", lambda: os.path.exists(checkpoint_of(path)))
    worker.child.kill()
    worker.end()
    edit_job(path, lambda job: job.update(checkpoint_s=0))
    again = Worker(path)
    step = again.wait_for("progress")["step"]
    again.child.send_signal(signal.SIGTERM)
    again.end()
    assert step > 1 and "going on after step" in again.log, (step, again.log)


def change_byte(path, place):
    with open(path, "r+b") as file:
        file.seek(place, os.SEEK_SET if place >= 0 else os.SEEK_END)
        byte = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte[0] ^ 1]))


@tap.case
def a_checkpoint_that_is_damaged_or_of_another_job_is_refused_and_the_job_begins_anew():
    path = make_job("damaged", WIDE_TASK, steps=30)
    expected = finish(path)
    start_over(path)
    worker = Worker(path)
    worker.wait_for("progress")
    worker.child.send_signal(signal.SIGTERM)
    worker.end()
    good = checkpoint_of(path) + ".good"
    shutil.copyfile(checkpoint_of(path), good)
    size = os.path.getsize(good)
    for name, spoil in (("changed", lambda: change_byte(checkpoint_of(path), random.randrange(size))),
                        ("cut", lambda: os.truncate(checkpoint_of(path), random.randrange(size))),
                        ("of another job", lambda: edit_job(path, lambda job: job.update(ticket="ab" * 32)))):
        shutil.copyfile(good, checkpoint_of(path))
        spoil()
        worker, status, last = run(path)
        assert status == 0 and last["event"] == "done", (name, status, last)
        assert "begins anew, because its checkpoint cannot be used" in worker.log, (name, worker.log)
        assert name == "of another job" or results(path) == expected[0], name


@tap.case
def a_worker_whose_daemon_dies_keeps_what_it_has():
    path = make_job("orphan", WIDE_TASK, steps=4000)
    parent = subprocess.Popen(["/bin/sh", "-c", f"'{skep.program('skep-worker')}' '{path}' & wait"], stdout=subprocess.PIPE)
    assert b"progress" in parent.stdout.readline()
    parent.kill()
    said = parent.stdout.read()  # to the end: until the worker has gone
    parent.wait()
    assert b'"stopped"' in said, said
    assert os.path.exists(checkpoint_of(path))


@tap.case
def threads_can_be_set_while_it_runs():
    path = make_job("threads", WIDE_TASK, steps=4000)
    worker = Worker(path)
    worker.wait_for("progress")
    worker.child.stdin.write(b"threads 2\nthreads many\n")
    worker.child.stdin.flush()
    worker.wait_for("progress")
    worker.wait_for("progress")
    worker.child.send_signal(signal.SIGTERM)
    status, last = worker.end()
    assert status == 0 and last["event"] == "stopped", (status, last)
    assert 'stdin said "threads many"' in worker.log and '"threads 2"' not in worker.log, worker.log


# ---- files it should not believe ----

def refused(path, status, *words):
    worker, found, last = run(path)
    assert found == status, (found, last)
    assert last["event"] == "error" and all(word in last["message"] for word in words), last
    assert not [name for name in results(path) if name.endswith(".body")], "nothing may be published"
    return last


def root_of(data, chunk):
    hashes = b"".join(hashlib.sha256(data[i:i + chunk]).digest() for i in range(0, len(data), chunk))
    return hashlib.sha256(struct.pack("<QI", len(data), chunk) + hashes).hexdigest()


def spoil_state(path, shard, change):
    """Changes a state and lets the job say that this is right: what a majority of lying keepers could do."""
    def spoil(job):
        named = next(one for one in job["shards"] if one["shard"] == shard)
        with open(named["state"], "rb") as file:
            data = bytearray(file.read())
        data = bytes(change(data) or data)
        with open(named["state"], "wb") as file:
            file.write(data)
        named["root"] = root_of(data, 4096)
    edit_job(path, spoil)


def set_float(value):
    def change(data):
        data[-4:] = struct.pack("<f", value)
    return change


@tap.case
def a_state_that_the_disk_changed_is_named_so_that_it_can_be_fetched_again():
    path = make_job("disk")
    change_byte(os.path.join(FOLDER, "disk", "ffn.0.0.1.state"), -9)
    assert refused(path, 4, "ffn.0.0.1.state", "root", "the seal says")["damaged"] == "ffn.0.0.1"


@tap.case
def numbers_that_are_none_in_a_state_are_refused():
    for name, value in (("nan", float("nan")), ("infinite", float("inf"))):
        path = make_job(name)
        spoil_state(path, "ffn.0.0.1", set_float(value))
        last = refused(path, 4, "ffn.0.0.1", "finite")
        assert "damaged" not in last, last


@tap.case
def a_state_of_another_shape_is_refused():
    path = make_job("shape")
    spoil_state(path, "ffn.0.0.1", lambda data: open(os.path.join(FOLDER, "shape", "trunk.state"), "rb").read())
    refused(path, 4, "ffn.0.0.1", "tensors, expected")


@tap.case
def a_state_that_makes_the_loss_no_number_ends_the_job():
    path = make_job("overflow")

    def huge(data):
        size = struct.unpack("<Q", data[:8])[0] + 8
        data[size:] = struct.pack("<f", 3e38) * ((len(data) - size) // 4)
    spoil_state(path, "trunk", huge)
    refused(path, 4, "finite")


@tap.case
def a_chunk_shorter_than_a_sequence_is_refused():
    path = make_job("short")
    for i in range(2):
        os.truncate(os.path.join(FOLDER, "short", f"chunk-{i}"), 47)
    refused(path, 4, "none of the slice's 2 chunks", "48")


@tap.case
def a_manifest_or_job_file_that_is_not_right_is_refused():
    path = make_job("manifest")
    change_byte(os.path.join(FOLDER, "manifest", "manifest"), 40)
    refused(path, 4)
    path = make_job("jobfile")
    edit_job(path, lambda job: job.update(threads=0))
    refused(path, 4, "threads")
    path = make_job("stranger")
    edit_job(path, lambda job: job["shards"][1].update(shard="ffn.7.0.0"))
    refused(path, 6, "shard 1 is not in this model")
    path = make_job("device")
    edit_job(path, lambda job: job.update(device="abacus"))
    refused(path, 2, "abacus")


@tap.case
def a_donors_own_moments_and_residual_begin_anew_when_they_are_damaged():
    path = make_job("own")
    expected = finish(path)
    folder = os.path.join(FOLDER, "own")
    for place, kind in (("trunk.moments", "moments"), ("ffn.0.0.0.residual", "residual")):
        for spoil in (lambda file: change_byte(file, -40), lambda file: os.truncate(file, 30), lambda file: os.truncate(file, 0)):
            shutil.copyfile(os.path.join(folder, "job", place), os.path.join(folder, place))
            spoil(os.path.join(folder, place))
            start_over(path)
            worker, status, last = run(path)
            assert status == 0 and last["event"] == "done", (status, last)
            assert kind in worker.log and "anew from zero" in worker.log and place in worker.log, worker.log
            assert results(path) == expected[0]
            assert not os.path.exists(os.path.join(folder, place))  # the update says that it began with nothing


# ---- the daemon, whose job this is ----

# A job takes a few seconds: long enough to be interrupted.
STEPS = 800 if skep.sanitized() else 2500
swarm = skep.Swarm(keepers=2, donors=0, task=skep.TINY_TASK.replace("steps: 4", f"steps: {STEPS}").replace("1500", "500"))


def folder_of(i):
    return swarm.path(f"donor-{i}")


def donor(i, *words):
    return swarm.skep(*words, "--dir", folder_of(i)).decode()


def status_of(i):
    swarm.skep("status", "--json", "--dir", folder_of(i), status=None)
    return json.loads(donor(i, "status", "--json")) if swarm.exit_status == 0 else {"state": "starting"}


seen = {}  # of each donor, while it trains: its round and the rate it told last


def trains(i):
    """In the middle of a job: its worker has said so since the last look, for nothing else changes the rate."""
    status = status_of(i)
    before = seen.get(i)
    seen[i] = (status["round"], status["tokens_per_s"]) if status["state"] == "training" else None
    return before and seen[i] and before[0] == seen[i][0] and before[1] != seen[i][1]


def log_of(i):
    with open(swarm.path(f"donor-{i}.log"), errors="replace") as file:
        return file.read()


def interrupted(i):
    return os.path.exists(os.path.join(folder_of(i), f"project-{swarm.project[:8]}", "job", "checkpoint"))


def goes_on(i, how, times):
    """Interrupts the donor's job `how`, and sees that it is taken up and published."""
    skep.wait("a job in its middle", lambda: trains(i))
    before = swarm.versions(0)
    how()
    skep.wait("the job is taken up", lambda: log_of(i).count("going on after step") >= times)
    skep.wait("and published", lambda: swarm.versions(0) > before)
    assert "given up" not in log_of(i), log_of(i)


@tap.case
def a_paused_job_goes_on_when_it_is_resumed():
    swarm.start_donor(0)

    def pause():
        donor(0, "pause")
        skep.wait("the checkpoint is written", lambda: interrupted(0))
        assert status_of(0)["state"] == "paused"
        donor(0, "resume")
    goes_on(0, pause, 1)


@tap.case
def a_job_goes_on_after_the_daemon_was_stopped_and_after_it_was_killed():
    def stop():
        assert swarm.processes["donor-0"].stop() == 0
        assert interrupted(0)
        swarm.start_donor(0)
    goes_on(0, stop, 2)

    def kill():
        swarm.processes["donor-0"].kill()
        swarm.start_donor(0)  # while the worker may still be writing
    goes_on(0, kill, 3)


@tap.case
def a_killed_worker_loses_nothing_but_time():
    skep.wait("a job in its middle", lambda: trains(0))
    before = swarm.versions(0)
    children = subprocess.run(["pgrep", "-P", str(swarm.processes["donor-0"].child.pid)], capture_output=True).stdout.split()
    assert len(children) == 1, children
    os.kill(int(children[0]), signal.SIGKILL)
    skep.wait("the job is published all the same", lambda: swarm.versions(0) > before)
    assert "the worker ended with signal 9" in log_of(0)


@tap.case
def a_job_whose_base_has_become_too_old_is_given_up_with_a_sentence():
    skep.wait("a job in its middle", lambda: trains(0))
    donor(0, "pause")
    skep.wait("the checkpoint is written", lambda: interrupted(0))
    began = status_of(0)["round"]
    swarm.start_donor(1)
    skep.wait("three versions without it", lambda: swarm.versions(0) >= began + 3, 180)
    donor(0, "resume")
    skep.wait("the job is given up", lambda: f"the interrupted job is given up: it began at version {began}," in log_of(0))
    skep.wait("and a new one trained", lambda: trains(0) and status_of(0)["round"] > began)


@tap.case
def a_project_that_takes_more_memory_than_the_donor_gives_is_refused_before_anything_is_fetched():
    with skep.Swarm(keepers=0, task=None) as lone:
        arguments = [skep.program("skepd"), "--dir", lone.path("donor"), "--listen-host", f"{lone.net}.99", "--memory", "1MiB",
                     "--attach", swarm.project, "--bootstrap", f"{swarm.keeper_host(0)}:{skep.PORT}"]
        lone.processes["donor"] = skep.Process(arguments, lone.path("donor.log"))

        def status():
            lone.skep("status", "--json", "--dir", lone.path("donor"), status=None)
            return lone.exit_status == 0 and json.loads(lone.skep("status", "--json", "--dir", lone.path("donor")))
        found = skep.wait("it is refused", lambda: status() and status()["state"] == "refusing" and status())
        assert "1.0 MiB" in found["sentence"] and "--memory" in found["sentence"], found
        assert found["memory_limit_bytes"] == 1 << 20, found
        project = lone.path("donor", f"project-{swarm.project[:8]}")
        assert not os.listdir(os.path.join(project, "states")), "nothing is fetched"
        lone.skep("detach", "--dir", lone.path("donor"))
        assert status()["state"] == "idle", status()
        assert lone.processes["donor"].stop() == 0


with swarm:
    result = tap.main()
    if result:
        swarm.end(keep=True)
if result:
    print(f"# what is left lies in {FOLDER}")
else:
    shutil.rmtree(FOLDER, ignore_errors=True)
sys.exit(result)
