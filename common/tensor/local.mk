# Compiled once for each instruction set: common/tensor/kernels.h.
TENSOR_KERNELS = \
    common/tensor/activation.c \
    common/tensor/exp.h common/tensor/kernels.h \
    common/tensor/map.c \
    common/tensor/norm.c \
    common/tensor/pack.h \
    common/tensor/product.c \
    common/tensor/rows.c
TENSOR_SOURCES = $(TENSOR_KERNELS) \
    common/tensor/cpu.c \
    common/tensor/gemm.c common/tensor/gemm.h \
    common/tensor/linear.c \
    common/tensor/memory.c common/tensor/memory.h \
    common/tensor/ops.h \
    common/tensor/real.h \
    common/tensor/reference.c \
    common/tensor/split.c common/tensor/split.h
# The kernels' loops are marked with OpenMP's simd pragma. Neither errno after sqrtf nor the floating-point exception flags are read,
# and both would keep loops scalar. Fused multiply-adds are welcome: no bits are compared here (a CBLAS differs by machine anyway).
# Clang would warn of loops that stay scalar, as they do under sanitizers.
TENSOR_CFLAGS = $(AM_CFLAGS) -pthread -fopenmp-simd -fno-math-errno -fno-trapping-math -ffp-contract=fast -Wno-pass-failed

noinst_LIBRARIES += common/tensor/libskep-tensor.a
common_tensor_libskep_tensor_a_SOURCES = $(TENSOR_SOURCES)
common_tensor_libskep_tensor_a_CPPFLAGS = $(AM_CPPFLAGS) $(CBLAS_CFLAGS)
common_tensor_libskep_tensor_a_CFLAGS = $(TENSOR_CFLAGS)
common_tensor_libskep_tensor_a_LIBADD =
if X86_64
noinst_LIBRARIES += common/tensor/libskep-tensor-avx2.a common/tensor/libskep-tensor-avx512.a
common_tensor_libskep_tensor_avx2_a_SOURCES = $(TENSOR_KERNELS)
common_tensor_libskep_tensor_avx2_a_CPPFLAGS = $(AM_CPPFLAGS) -DSKEP_ISA=avx2
common_tensor_libskep_tensor_avx2_a_CFLAGS = $(TENSOR_CFLAGS) -mavx2 -mfma
common_tensor_libskep_tensor_avx512_a_SOURCES = $(TENSOR_KERNELS)
common_tensor_libskep_tensor_avx512_a_CPPFLAGS = $(AM_CPPFLAGS) -DSKEP_ISA=avx512
common_tensor_libskep_tensor_avx512_a_CFLAGS = $(TENSOR_CFLAGS) -mavx2 -mfma -mavx512f -mavx512bw -mavx512dq -mavx512vl -mprefer-vector-width=512
common_tensor_libskep_tensor_a_LIBADD += $(common_tensor_libskep_tensor_avx2_a_OBJECTS) \
    $(common_tensor_libskep_tensor_avx512_a_OBJECTS)
endif
EXTRA_DIST += common/tensor/README.md
