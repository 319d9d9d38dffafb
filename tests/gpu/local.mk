# The plug-in's code over an emulated device (emulator.h says how), and over a real one where there is one.
GPU_EMULATOR = tests/gpu/emulated.h tests/gpu/emulated-cuda.cpp tests/gpu/emulated-plugin.cpp \
    tests/gpu/emulator.cpp tests/gpu/emulator.h tests/gpu/emulator-state.h
check_LIBRARIES += tests/gpu/libskep-emulated.a
tests_gpu_libskep_emulated_a_SOURCES = $(GPU_EMULATOR)
tests_gpu_libskep_emulated_a_CPPFLAGS = $(AM_CPPFLAGS) -DSKEP_GPU_EMULATED
GPU_EMULATED_LIBS = tests/gpu/libskep-emulated.a common/tensor/libskep-tensor.a $(LIBS_FLOOR0) $(CBLAS_LIBS) \
    -lm -lstdc++ $(CMOCKA_LIBS)

MODEL_CHECKS = tests/gpu/model-checks.c tests/gpu/model-checks.h $(MODEL_FIXTURE)

UNIT_TESTS += tests/gpu/test-emulated tests/gpu/test-emulated-ops tests/gpu/test-emulated-models
tests_gpu_test_emulated_SOURCES = tests/gpu/test-emulated.c
tests_gpu_test_emulated_LDADD = $(GPU_EMULATED_LIBS)
tests_gpu_test_emulated_ops_SOURCES = tests/gpu/test-emulated-ops.c $(OPS_CHECKS)
tests_gpu_test_emulated_ops_LDADD = $(GPU_EMULATED_LIBS)
tests_gpu_test_emulated_models_SOURCES = tests/gpu/test-emulated-models.c $(MODEL_CHECKS)
tests_gpu_test_emulated_models_LDADD = tests/gpu/libskep-emulated.a common/model/libskep-model.a $(LIBS_FLOOR1) \
    -lstdc++ $(CMOCKA_LIBS)

GPU_OR_SKIP = tests/gpu/gpu-or-skip.c tests/gpu/gpu-or-skip.h
GPU_CPPFLAGS = $(AM_CPPFLAGS)
if CUDA
GPU_CPPFLAGS += -DSKEP_WITH_CUDA
endif
UNIT_TESTS += tests/gpu/test-gpu tests/gpu/test-gpu-models
tests_gpu_test_gpu_SOURCES = tests/gpu/test-gpu.c $(GPU_OR_SKIP) $(OPS_CHECKS)
tests_gpu_test_gpu_CPPFLAGS = $(GPU_CPPFLAGS)
tests_gpu_test_gpu_LDADD = $(LIBS_FLOOR3) $(CMOCKA_LIBS)
tests_gpu_test_gpu_models_SOURCES = tests/gpu/test-gpu-models.c $(GPU_OR_SKIP) $(MODEL_CHECKS)
tests_gpu_test_gpu_models_CPPFLAGS = $(GPU_CPPFLAGS)
tests_gpu_test_gpu_models_LDADD = $(LIBS_FLOOR3) $(CMOCKA_LIBS)

# Figures of a card: tests/gpu/device-check builds it and runs it.
EXTRA_PROGRAMS += tests/gpu/bench-gpu
tests_gpu_bench_gpu_SOURCES = tests/gpu/bench-gpu.c $(GPU_OR_SKIP)
tests_gpu_bench_gpu_CPPFLAGS = $(GPU_CPPFLAGS)
tests_gpu_bench_gpu_LDADD = $(LIBS_FLOOR3)

TESTS += tests/gpu/test-plugin.py
EXTRA_DIST += tests/gpu/test-plugin.py tests/gpu/device-check
