UNIT_TESTS += tests/unit/base/test-bytes
tests_unit_base_test_bytes_SOURCES = tests/unit/base/test-bytes.c
tests_unit_base_test_bytes_LDADD = $(LIBS_FLOOR0) $(CMOCKA_LIBS)
