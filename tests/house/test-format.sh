#!/bin/sh
# clang-format decides how the code looks. Prints TAP.
echo 1..1
if ! command -v clang-format >/dev/null 2>&1; then
    echo "ok 1 - the code looks as clang-format says # SKIP clang-format is not installed"
    exit 0
fi
cd "${SKEP_SOURCE:-.}" || exit 1
find client server common tests -name '*.[ch]' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh' | sort >"${TMPDIR:-/tmp}/skep-format.$$"
if xargs clang-format --dry-run -Werror <"${TMPDIR:-/tmp}/skep-format.$$" 2>&1 | sed 's/^/# /' | head -n 20 | grep .; then
    echo "not ok 1 - the code looks as clang-format says"
else
    echo "ok 1 - the code looks as clang-format says"
fi
rm -f "${TMPDIR:-/tmp}/skep-format.$$"
