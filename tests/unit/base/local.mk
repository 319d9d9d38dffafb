UNIT_TESTS += tests/unit/base/test-bytes
tests_unit_base_test_bytes_SOURCES = tests/unit/base/test-bytes.c
tests_unit_base_test_bytes_LDADD = $(LIBS_FLOOR0) $(CMOCKA_LIBS)
UNIT_TESTS += tests/unit/base/test-refusal
tests_unit_base_test_refusal_SOURCES = tests/unit/base/test-refusal.c
tests_unit_base_test_refusal_LDADD = $(LIBS_FLOOR0) $(CMOCKA_LIBS)
