"""Real keepers, donors and tools of the build tree on loopback addresses of this test alone.

A Swarm owns a temporary folder and the processes in it; leaving its `with` block ends them by their ids and removes the folder
(unless a test failed: then the folder's name is printed). Nothing here sleeps for a fixed time to be safe: `wait` polls a condition
against a deadline."""
import atexit
import base64
import hashlib
import http.client
import json
import os
import random
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time

BUILD = os.environ.get("SKEP_BUILD", ".")
SOURCE = os.environ.get("SKEP_SOURCE", ".")
PORT = 7420
SWARMS = []  # those whose programs may still run
# Programs that other programs start write their sanitizer reports to files too, or nobody would see them.
REPORTS = tempfile.mkdtemp(prefix="skep-reports-")
atexit.register(shutil.rmtree, REPORTS, ignore_errors=True)
os.environ["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + f":log_path={REPORTS}/report"
os.environ["UBSAN_OPTIONS"] = os.environ.get("UBSAN_OPTIONS", "") + f":log_path={REPORTS}/report"
PATIENCE = float(os.environ.get("SKEP_PATIENCE", "60"))  # seconds before a wait is given up

PROGRAMS = {
    "skep": "client/skep",
    "skepd": "client/skepd",
    "skep-worker": "client/skep-worker",
    "skep-keeper": "server/skep-keeper",
}

TINY_TASK = """\
name: tiny
data:
  file: {data}
  holdout_every: 20
model:
  dim: 32
  hidden: 64
  heads: 2
  layers: 1
  context: 48
  prefix: 8
  rows: 2
  columns: 2
  experts_per_token: 2
  rows_per_token: 1
  route: document
training:
  steps: 4
  batch: 4
  warmup_rounds: 2
  learning_rate: 0.004
  donor_rows: 1
  slice_chunks: 2
merge:
  window_ms: 1500
trust:
  stamp_bits: 1
chunk_bytes: 4096
"""


TINY_TOKENS = 4 * 4 * (48 - 8)  # of one job: steps * batch * (context - prefix)


def program(name):
    return os.path.join(BUILD, PROGRAMS[name])


def sanitized():
    """The programs are a sanitized build: several times as slow and large."""
    with open(program("skep-worker"), "rb") as file:
        return b"__asan_init" in file.read()


def wait(what, condition, seconds=None):
    """The first true value of condition(), or a failure that says what did not happen."""
    deadline = time.monotonic() + (seconds or PATIENCE)
    pause = 0.05  # longer each time: every look is a new TLS connection to each keeper, which a slow build feels
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds or PATIENCE:.0f} s: {what}")
        time.sleep(pause)
        pause = min(pause * 1.3, 0.5)


class Answer:
    def __init__(self, status, headers, body):
        self.status = status
        self.headers = headers
        self.body = body

    def json(self):
        return json.loads(self.body)

    def error(self):
        """(code, message) of an error answer."""
        error = self.json()["error"]
        return error["code"], error["message"]


def request(host, method, path, body=None, headers=None, port=PORT, timeout=20):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    connection = http.client.HTTPSConnection(host, port, context=context, timeout=timeout)
    try:
        if isinstance(body, (dict, list)):
            body = json.dumps(body)
        connection.request(method, path, body=body, headers=headers or {})
        response = connection.getresponse()
        return Answer(response.status, dict(response.getheaders()), response.read())
    finally:
        connection.close()


class Process:
    def __init__(self, arguments, log, environment=None, ready=None, limits=None):
        self.log = log
        self.arguments = arguments
        self.output = open(log, "ab")
        env = dict(os.environ, **(environment or {}))
        self.child = subprocess.Popen(arguments, stdout=subprocess.PIPE if ready else self.output, stderr=self.output,
                                      env=env, preexec_fn=limits)
        if ready:
            self.wait_line(ready)

    def wait_line(self, text):
        for line in self.child.stdout:
            if text in line.decode(errors="replace"):
                return
        raise AssertionError(f"{self.arguments[0]} ended with {self.child.wait()} before saying {text!r}; log:\n" + self.tail())

    def tail(self, lines=30):
        with open(self.log, errors="replace") as file:
            return "".join(file.readlines()[-lines:])

    def running(self):
        return self.child.poll() is None

    def stop(self, number=signal.SIGTERM, seconds=15):
        if self.running():
            self.child.send_signal(number)
            try:
                self.child.wait(seconds)
            except subprocess.TimeoutExpired:
                self.child.kill()
                self.child.wait()
                raise AssertionError(f"{self.arguments[0]} did not stop within {seconds} s of signal {number}")
        return self.child.returncode

    def kill(self):
        self.child.kill()
        self.child.wait()


class Swarm:
    def __init__(self, keepers=4, donors=0, task=TINY_TASK, data="/usr/share/common-licenses/GPL-3"):
        self.keeper_count = keepers
        self.donor_count = donors
        self.task = task
        self.data = data
        self.processes = {}
        self.project = None
        self.ended = False

    def __enter__(self):
        self.dir = tempfile.mkdtemp(prefix="skep-test-")
        # One network of 127/8 per test process.
        self.net = f"127.{130 + os.getpid() // 250 % 100}.{os.getpid() % 250}"
        SWARMS.append(self)
        try:
            self.start()
        except BaseException:
            self.end(keep=True)
            raise
        return self

    def __exit__(self, kind, value, trace):
        self.end(keep=kind is not None)

    def start(self):
        for i in range(self.keeper_count):
            self.start_keeper(i)
        if self.task:
            self.publish()
        for i in range(self.donor_count):
            self.start_donor(i)

    def end(self, keep=False):
        if self.ended:
            return
        self.ended = True
        for process in self.processes.values():
            if process.running():
                process.kill()
        if keep:
            print(f"# what is left lies in {self.dir}")
            for name, process in sorted(self.processes.items()):
                print(f"# --- {name}\n" + "".join(f"#   {line}\n" for line in process.tail(12).splitlines()))
        else:
            shutil.rmtree(self.dir, ignore_errors=True)

    def path(self, *parts):
        return os.path.join(self.dir, *parts)

    def keeper_host(self, i):
        return f"{self.net}.{i + 1}"

    def donor_host(self, i):
        return f"{self.net}.{i + 101}"

    def start_keeper(self, i, extra=(), limits=None):
        host = self.keeper_host(i)
        arguments = [program("skep-keeper"), "--dir", self.path(f"keeper-{i}"), "--listen", f"{host}:{PORT}"]
        others = [j for j in range(self.keeper_count) if j != i]
        if others:
            arguments += ["--bootstrap", f"{self.keeper_host(others[0])}:{PORT + 1}"]
        for j in others:
            arguments += ["--peer", f"{self.keeper_host(j)}:{PORT}"]
        self.processes[f"keeper-{i}"] = Process(arguments + list(extra), self.path(f"keeper-{i}.log"),
                                                ready="listening on", limits=limits)

    def start_donor(self, i, bootstrap=0):
        arguments = [program("skepd"), "--dir", self.path(f"donor-{i}"), "--listen-host", self.donor_host(i),
                     "--attach", self.project, "--bootstrap", f"{self.keeper_host(bootstrap)}:{PORT + 1}"]  # a DHT node
        self.processes[f"donor-{i}"] = Process(arguments, self.path(f"donor-{i}.log"))

    def skep(self, *words, status=0, timeout=120, environment=None):
        """Runs the command line tool; its stdout. The exit status must be `status` (None: any)."""
        done = subprocess.run([program("skep"), *words], capture_output=True, timeout=timeout,
                              env=dict(os.environ, **(environment or {})))
        self.stderr = done.stderr.decode(errors="replace")
        if status is not None and done.returncode != status:
            raise AssertionError(f"skep {' '.join(words)} ended with {done.returncode}, not {status}:\n"
                                 f"{done.stdout.decode(errors='replace')}{self.stderr}")
        self.exit_status = done.returncode
        return done.stdout

    def publish(self):
        with open(self.path("task.yaml"), "w") as file:
            file.write(self.task.format(data=self.data))
        words = ["project", "publish", self.path("task.yaml"), "--key", self.path("project.key")]
        for i in range(self.keeper_count):
            words += ["--keeper", f"{self.keeper_host(i)}:{PORT}"]
        output = self.skep(*words).decode()
        self.project = re.search(r"project ([0-9a-f]{64})", output).group(1)

    def get(self, i, path, **more):
        return request(self.keeper_host(i), "GET", path, **more)

    def post(self, i, path, body, **more):
        return request(self.keeper_host(i), "POST", path, body=body, **more)

    def status(self, i):
        """The project's part of keeper i's status, or None while it does not answer."""
        try:
            projects = self.get(i, "/v1/status").json()["projects"]
            return next((one for one in projects if self.project in (None, one["project"])), None)
        except (OSError, http.client.HTTPException, KeyError):
            return None

    def versions(self, i):
        status = self.status(i)
        return status["trunk_version"] if status else -1

    def running_keepers(self):
        return [i for i in range(self.keeper_count)
                if f"keeper-{i}" in self.processes and self.processes[f"keeper-{i}"].running()]

    def agreed(self):
        """True when all running keepers show one state."""
        states = [self.status(i) for i in self.running_keepers()]
        return all(states) and len({s["state"] for s in states}) == 1

    def stop_donors(self):
        for name, process in self.processes.items():
            if name.startswith("donor") and process.running():
                status = process.stop()
                assert status == 0, f"{name} ended with {status} on SIGTERM\n{process.tail()}"


def the_programs_end_cleanly_on_request():
    """The last case of every file: status 0, and in a sanitized build no leak and no other report of any program of this test."""
    for swarm in SWARMS:
        for name, process in swarm.processes.items():
            if process.running():
                status = process.stop()
                assert status == 0, f"{name} ended with {status} on SIGTERM\n{process.tail()}"
    reports = []
    for name in sorted(os.listdir(REPORTS)):
        with open(os.path.join(REPORTS, name), errors="replace") as file:
            reports.append(file.read().split("SUMMARY", 1)[0])
    assert not reports, f"{len(reports)} reports, the first:\n{reports[0]}"


class Tap:
    """Runs functions as test cases and prints TAP."""

    def __init__(self):
        self.cases = []

    def case(self, function):
        self.cases.append(function)
        return function

    def main(self):
        self.case(the_programs_end_cleanly_on_request)
        print(f"1..{len(self.cases)}", flush=True)
        failed = 0
        for number, case in enumerate(self.cases, 1):
            name = case.__name__.replace("_", " ")
            try:
                case()
                print(f"ok {number} - {name}", flush=True)
            except Exception as error:  # a failure of any kind is a failed case, and the next one still runs
                failed += 1
                print("".join(f"# {line}\n" for line in f"{type(error).__name__}: {error}".splitlines()), end="")
                print(f"not ok {number} - {name}", flush=True)
        return 1 if failed else 0


class Key:
    """An Ed25519 key and what can be signed with it: for statements that the real programs would never make."""

    def __init__(self):
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
        self.private = Ed25519PrivateKey.generate()
        self.id = self.private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw).hex()

    def envelope(self, kind, payload):
        if not isinstance(payload, bytes):
            payload = json.dumps(payload).encode()
        pae = b"DSSEv1 %d %s %d %s" % (len(kind), kind.encode(), len(payload), payload)
        return {"payload": base64.b64encode(payload).decode(), "payloadType": kind,
                "signatures": [{"keyid": self.id, "sig": base64.b64encode(self.private.sign(pae)).decode()}]}


def ticket(beacon, donor, trunk_version):
    """swarm/ticket.h; ids in hexadecimal."""
    return sha256(b"skep-ticket" + bytes.fromhex(beacon) + bytes.fromhex(donor) + trunk_version.to_bytes(8, "little"))


def is_stamp(project, donor, bits, nonce):
    """swarm/stamp.h."""
    password = b"skep-stamp" + bytes.fromhex(project) + bytes.fromhex(donor)
    found = hashlib.scrypt(password, salt=nonce.to_bytes(8, "little"), n=16384, r=8, p=1, dklen=32, maxmem=1 << 25)
    return int.from_bytes(found, "big") >> (256 - bits) == 0


def stamp(project, donor, bits):
    """The first nonce from 0 that is a stamp."""
    nonce = 0
    while bits > 0 and not is_stamp(project, donor, bits, nonce):
        nonce += 1
    return nonce


def update_file(envelope, body):
    """schemas/update.md: SKUP, format, zeros, envelope size, envelope, body."""
    text = json.dumps(envelope).encode() if isinstance(envelope, dict) else envelope
    return b"SKUP\1\0\0\0" + len(text).to_bytes(4, "little") + text + body


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def seed():
    """The seed of this run, printed; SKEP_SEED repeats one."""
    value = int(os.environ.get("SKEP_SEED") or random.SystemRandom().randrange(1 << 32))
    print(f"# seed {value} (SKEP_SEED={value} repeats it)", flush=True)
    return random.Random(value)
