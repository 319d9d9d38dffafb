#!/usr/bin/python3
"""Who may include whom (CONTRIBUTING.md, Floors), read off the include lines and the libraries' symbols. Prints TAP."""
import os
import re
import subprocess
import sys

SOURCE = os.environ.get("SKEP_SOURCE", ".")
BUILD = os.environ.get("SKEP_BUILD", ".")

FLOOR = {
    "common/base": 0,
    "common/crypto": 1, "common/wire": 1, "common/tensor": 1,
    "common/model": 2, "common/merge": 2, "common/swarm": 2,
    "common/sys": 3,
    "common/store": 4, "common/discovery": 4, "common/gpu": 4,  # floor 3 as well, but they stand on sys
    "client": 5, "server": 5,
}
# Third-party headers and the one folder that may include them.
OWNER = {
    r"openssl/": "common/crypto", r"jansson\.h": "common/wire", r"cyaml/": "common/wire", r"yaml\.h": "common/wire",
    r"zlib\.h": "common/wire", r"cblas\.h": "common/tensor", r"uv\.h": "common/sys", r"curl/": "common/sys",
    r"microhttpd\.h": "common/sys", r"sqlite3\.h": "common/store", r"libtorrent/": "common/discovery",
    r"(cuda_runtime|cublas)": "common/gpu", r"(ncurses|curses)\.h": "client",
}
SYSTEM = re.compile(r"^(sys/|linux/|netinet/|arpa/|[a-z_0-9]+\.h$|[a-z_]+$)")


def folder_of(path):
    parts = path.split("/")
    return "/".join(parts[:2]) if parts[0] == "common" else parts[0]


def sources():
    for top in ("common", "client", "server"):
        for where, _, names in os.walk(os.path.join(SOURCE, top)):
            for name in sorted(names):
                if name.endswith((".c", ".h", ".cpp", ".cu", ".cuh")):
                    yield os.path.relpath(os.path.join(where, name), SOURCE)


def includes(path):
    with open(os.path.join(SOURCE, path), errors="replace") as file:
        for number, line in enumerate(file, 1):
            match = re.match(r'\s*#\s*include\s*(["<])([^">]+)[">]', line)
            if match:
                yield number, match.group(1), match.group(2)


def check_own_headers():
    for path in sources():
        mine = folder_of(path)
        for number, mark, name in includes(path):
            if mark != '"' or name == "config.h":
                continue
            theirs = folder_of(name)
            if theirs not in FLOOR:
                yield f"{path}:{number}: {name} is in no known folder"
            elif theirs != mine and FLOOR[theirs] >= FLOOR[mine]:
                yield f"{path}:{number}: {mine} may not include {theirs}, which is not below it"


def check_foreign_headers():
    for path in sources():
        mine = folder_of(path)
        for number, mark, name in includes(path):
            owner = next((o for pattern, o in OWNER.items() if re.match(pattern, name)), None)
            if mark == "<" and owner and owner != mine:
                yield f"{path}:{number}: only {owner} may include <{name}>"
            if mark == "<" and owner and path.endswith(".h"):
                yield f"{path}:{number}: a header may not include <{name}>"
            if mark == "<" and not owner and not SYSTEM.match(name):
                yield f"{path}:{number}: <{name}> belongs to no folder; name its owner in tests/house/test-floors.py"


def check_symbols():
    for folder in FLOOR:
        if not folder.startswith("common/"):
            continue
        library = os.path.join(BUILD, folder, f"libskep-{folder.split('/')[1]}.a")
        if not os.path.exists(library):
            continue
        listing = subprocess.run(["nm", "-g", "--defined-only", library], capture_output=True, text=True).stdout
        for line in listing.splitlines():
            fields = line.split()
            if len(fields) == 3 and fields[1] in "TDBR" and not re.match(r"(skep_|__|_Z|_init|_fini|asan|ubsan)", fields[2]):
                yield f"{library}: external symbol {fields[2]} does not begin with skep_"


def check_headers_explain():
    for path in sources():
        if path.endswith(".h"):
            with open(os.path.join(SOURCE, path), errors="replace") as file:
                if not file.read(2) == "/*":
                    yield f"{path}:1: a header opens with what it is, in prose"


CHECKS = [
    ("folders include only lower floors", check_own_headers),
    ("each library has one folder and no header shows it", check_foreign_headers),
    ("external symbols begin with skep_", check_symbols),
    ("headers open with prose", check_headers_explain),
]


def main():
    print(f"1..{len(CHECKS)}")
    failed = 0
    for number, (name, check) in enumerate(CHECKS, 1):
        breaches = list(check())
        for breach in breaches:
            print(f"# {breach}")
        print(f"{'not ok' if breaches else 'ok'} {number} - {name}")
        failed += bool(breaches)
    return 1 if failed else 0


sys.exit(main())
