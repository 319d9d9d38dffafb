# The fakes lie beside the test, where it looks for them: a driver under the name of NVIDIA's, and a plug-in.
UNIT_TESTS += tests/unit/gpu/test-device
tests_unit_gpu_test_device_SOURCES = tests/unit/gpu/test-device.c tests/unit/gpu/fake-driver.h
tests_unit_gpu_test_device_LDADD = $(LIBS_FLOOR3) $(CMOCKA_LIBS)
EXTRA_tests_unit_gpu_test_device_DEPENDENCIES = tests/unit/gpu/fake-driver.so tests/unit/gpu/skep-cuda.so
GPU_FAKE = $(CC) $(DEFS) -I. $(AM_CPPFLAGS) $(CPPFLAGS) -std=c11 $(WARNING_FLAGS) -Wmissing-prototypes $(CFLAGS) -fPIC -shared
tests/unit/gpu/fake-driver.so: tests/unit/gpu/fake-driver.c tests/unit/gpu/fake-driver.h
	$(AM_V_GEN)$(MKDIR_P) $(@D) && $(GPU_FAKE) $(srcdir)/tests/unit/gpu/fake-driver.c -Wl,-soname,libcuda.so.1 -o $@
tests/unit/gpu/skep-cuda.so: tests/unit/gpu/fake-plugin.c common/gpu/plugin.h common/tensor/ops.h
	$(AM_V_GEN)$(MKDIR_P) $(@D) && $(GPU_FAKE) $(srcdir)/tests/unit/gpu/fake-plugin.c -o $@
EXTRA_DIST += tests/unit/gpu/fake-driver.c tests/unit/gpu/fake-plugin.c
CLEANFILES += tests/unit/gpu/fake-driver.so tests/unit/gpu/skep-cuda.so
