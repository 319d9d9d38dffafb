#!/bin/sh
# The kernels compile for AArch64, where the compiler makes NEON code of them; nothing here runs it. Prints TAP.
echo 1..2
compiler=aarch64-linux-gnu-gcc
if ! command -v $compiler >/dev/null 2>&1; then
    echo "ok 1 - common/tensor compiles for AArch64 # SKIP $compiler is not installed (Debian package gcc-aarch64-linux-gnu)"
    echo "ok 2 - its kernels are NEON code # SKIP $compiler is not installed"
    exit 0
fi
source=${SKEP_SOURCE:-.}
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
# As in common/tensor/local.mk. gemm.c sees cblas.h, a plain C header that is the same on every machine.
flags="-std=c11 -O2 -Wall -Wextra -Werror -I$source -D_GNU_SOURCE -pthread -fopenmp-simd -fno-math-errno -fno-trapping-math -ffp-contract=fast"
cblas=$(pkg-config --cflags openblas 2>/dev/null)

failed=
for file in "$source"/common/tensor/*.c; do
    name=$(basename "$file" .c)
    # shellcheck disable=SC2086
    $compiler $flags $cblas -S -o "$folder/$name.s" "$file" 2>"$folder/errors" || {
        failed="$failed $name.c"
        sed 's/^/# /' "$folder/errors"
    }
done
[ -z "$failed" ] && echo "ok 1 - common/tensor compiles for AArch64" ||
    echo "not ok 1 - common/tensor compiles for AArch64:$failed"

# A multiplication, fused or not, of four float32 at once.
scalar=
for name in map rows norm activation product; do
    grep -Eq '\b(fmul|fmla|fmls)\s+v[0-9]+\.4s' "$folder/$name.s" 2>/dev/null || scalar="$scalar $name.c"
done
[ -z "$scalar" ] && echo "ok 2 - its kernels are NEON code" ||
    echo "not ok 2 - its kernels are NEON code: none in$scalar"
