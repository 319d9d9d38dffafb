# The plug-in's code over an emulated device (emulator.h says how), and over a real one where there is one.
GPU_EMULATOR = tests/gpu/emulated.h tests/gpu/emulated-cuda.cpp tests/gpu/emulated-plugin.cpp \
    tests/gpu/emulator.cpp tests/gpu/emulator.h tests/gpu/emulator-state.h
check_LIBRARIES += tests/gpu/libskep-emulated.a
tests_gpu_libskep_emulated_a_SOURCES = $(GPU_EMULATOR)
tests_gpu_libskep_emulated_a_CPPFLAGS = $(AM_CPPFLAGS) -DSKEP_GPU_EMULATED
GPU_EMULATED_LIBS = tests/gpu/libskep-emulated.a common/tensor/libskep-tensor.a $(LIBS_FLOOR0) $(CBLAS_LIBS) \
    -lm -lstdc++ $(CMOCKA_LIBS)

UNIT_TESTS += tests/gpu/test-emulated tests/gpu/test-emulated-ops tests/gpu/test-gpu
tests_gpu_test_emulated_SOURCES = tests/gpu/test-emulated.c
tests_gpu_test_emulated_LDADD = $(GPU_EMULATED_LIBS)
tests_gpu_test_emulated_ops_SOURCES = tests/gpu/test-emulated-ops.c $(OPS_CHECKS)
tests_gpu_test_emulated_ops_LDADD = $(GPU_EMULATED_LIBS)
tests_gpu_test_gpu_SOURCES = tests/gpu/test-gpu.c $(OPS_CHECKS)
tests_gpu_test_gpu_CPPFLAGS = $(AM_CPPFLAGS)
if CUDA
tests_gpu_test_gpu_CPPFLAGS += -DSKEP_WITH_CUDA
endif
tests_gpu_test_gpu_LDADD = $(LIBS_FLOOR3) $(CMOCKA_LIBS)

TESTS += tests/gpu/test-plugin.py
EXTRA_DIST += tests/gpu/test-plugin.py
