TENSOR_SOURCES = \
    common/tensor/activation.c \
    common/tensor/adamw.c \
    common/tensor/exp.h \
    common/tensor/gemm.c common/tensor/gemm.h \
    common/tensor/memory.c common/tensor/memory.h \
    common/tensor/norm.c common/tensor/ops.h \
    common/tensor/real.h \
    common/tensor/reference.c common/tensor/reference.h \
    common/tensor/rows.c \
    common/tensor/simd.h
# The kernels' loops are marked with OpenMP's simd pragma. Neither errno after sqrtf nor the floating-point exception flags are read,
# and both would keep loops scalar. Fused multiply-adds are welcome: no bits are compared here (a CBLAS differs by machine anyway).
# Clang would warn of loops that stay scalar, as they do under sanitizers.
TENSOR_CFLAGS = $(AM_CFLAGS) -fopenmp-simd -fno-math-errno -fno-trapping-math -ffp-contract=fast -Wno-pass-failed

noinst_LIBRARIES += common/tensor/libskep-tensor.a
common_tensor_libskep_tensor_a_SOURCES = $(TENSOR_SOURCES)
common_tensor_libskep_tensor_a_CPPFLAGS = $(AM_CPPFLAGS) $(CBLAS_CFLAGS)
common_tensor_libskep_tensor_a_CFLAGS = $(TENSOR_CFLAGS)
EXTRA_DIST += common/tensor/README.md
