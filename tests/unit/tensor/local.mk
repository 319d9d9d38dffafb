OPS_CHECKS = tests/unit/tensor/ops-checks.c tests/unit/tensor/ops-checks.h
UNIT_TESTS += tests/unit/tensor/test-ops
tests_unit_tensor_test_ops_SOURCES = tests/unit/tensor/test-ops.c $(OPS_CHECKS)
tests_unit_tensor_test_ops_LDADD = common/tensor/libskep-tensor.a $(LIBS_FLOOR0) $(CBLAS_LIBS) -lm $(CMOCKA_LIBS)
