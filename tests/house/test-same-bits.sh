#!/bin/sh
# The merge gives the same bits whoever compiles it: its pure parts are built by several compilers, also for AArch64 under qemu, and each build runs
# the corpus of schemas/vectors/merge. Prints TAP; what the machine lacks is skipped.
[ -z "${SKEP_SEEN-}" ] || {
    echo "1..0 # SKIP it builds with all compilers itself, and was seen beside another build"
    exit 0
}
source=${SKEP_SOURCE:-.}
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
# What skep_merge() stands on, and nothing that needs a library.
sources="$source/tests/unit/merge/test-same-bits.c $source/tests/unit/merge/corpus.c $source/common/wire/update.c"
for file in alloc bytes error id refusal rng; do
    sources="$sources $source/common/base/$file.c"
done
for file in "$source"/common/merge/*.c; do
    case $file in
    */compress.c | */loss-gate.c | */mask.c) ;; # not part of it; the last needs libcrypto
    *) sources="$sources $file" ;;
    esac
done
flags="-std=c11 -ffp-contract=off -D_GNU_SOURCE -I$source -pthread"
number=0

# report STATUS WHAT
report() {
    number=$((number + 1))
    [ "$1" -eq 0 ] && echo "ok $number - $2" || {
        sed 's/^/# /' "$folder/output"
        echo "not ok $number - $2"
    }
}

# skip WHAT TOOL PACKAGE
skip() {
    number=$((number + 1))
    echo "ok $number - $1 # SKIP $2 was not found (Debian package $3)"
}

has() {
    command -v "$1" >/dev/null 2>&1
}

# build PROGRAM COMPILER FLAGS...
build() {
    program=$folder/$1
    shift
    # shellcheck disable=SC2086
    "$@" $flags -o "$program" $sources -lm >"$folder/output" 2>&1
}

# run EVERY COMMAND...: an N-th of the corpus
run() {
    every=$1
    shift
    SKEP_SOURCE=$source "$@" --every "$every" >"$folder/output" 2>&1
}

echo 1..8
for compiler in gcc clang; do
    for level in "-O0" "-O3 -march=native"; do
        what="$compiler $level"
        # shellcheck disable=SC2086
        if has $compiler; then
            build native $compiler $level && run 7 "$folder/native"
            report $? "$what gives the recorded bits"
        else
            skip "$what" $compiler $compiler
        fi
    done
done

if has clang; then
    build sanitized clang -O0 -g -fsanitize=undefined -fno-sanitize-recover=all &&
        run 11 "$folder/sanitized"
    report $? "clang's sanitizer of undefined behaviour finds nothing, and the recorded bits"
else
    skip "the sanitizer of undefined behaviour" clang clang
fi

if ! has aarch64-linux-gnu-gcc; then
    skip "AArch64" aarch64-linux-gnu-gcc gcc-aarch64-linux-gnu
elif ! has qemu-aarch64; then
    skip "AArch64" qemu-aarch64 qemu-user
else
    build arm aarch64-linux-gnu-gcc -O1 -static && run 23 qemu-aarch64 "$folder/arm"
    report $? "AArch64 under qemu gives the recorded bits"
fi

has gcc && build plain gcc -O0 -g
if ! has gcc; then
    skip "valgrind" gcc gcc
elif has valgrind; then
    [ -x "$folder/plain" ] && run 97 valgrind -q --error-exitcode=1 --leak-check=full "$folder/plain"
    report $? "valgrind finds nothing, and the recorded bits"
else
    skip "valgrind" valgrind valgrind
fi

# merge/lanes.c chooses its instructions when it runs.
if [ "$(uname -m)" != x86_64 ]; then
    number=$((number + 1))
    echo "ok $number - x86-64 without AVX2 # SKIP this is another machine"
elif ! has gcc; then
    skip "x86-64 without AVX2" gcc gcc
elif has qemu-x86_64; then
    run 29 qemu-x86_64 -cpu Nehalem "$folder/plain"
    report $? "x86-64 without AVX2 gives the recorded bits"
else
    skip "x86-64 without AVX2" qemu-x86_64 qemu-user
fi
