OPS_CHECKS = tests/unit/tensor/ops-checks.c tests/unit/tensor/ops-checks.h
TENSOR_TEST_LIBS = common/tensor/libskep-tensor.a $(LIBS_FLOOR0) $(CBLAS_LIBS) -lm $(CMOCKA_LIBS)

UNIT_TESTS += tests/unit/tensor/test-cpu
tests_unit_tensor_test_cpu_SOURCES = tests/unit/tensor/test-cpu.c
tests_unit_tensor_test_cpu_LDADD = $(TENSOR_TEST_LIBS)

UNIT_TESTS += tests/unit/tensor/test-ops
tests_unit_tensor_test_ops_SOURCES = tests/unit/tensor/test-ops.c $(OPS_CHECKS)
tests_unit_tensor_test_ops_LDADD = $(TENSOR_TEST_LIBS)

UNIT_TESTS += tests/unit/tensor/test-split
tests_unit_tensor_test_split_SOURCES = tests/unit/tensor/test-split.c
tests_unit_tensor_test_split_LDADD = $(TENSOR_TEST_LIBS)
