# tests of wire
UNIT_TESTS += tests/unit/wire/test-update
tests_unit_wire_test_update_SOURCES = tests/unit/wire/test-update.c
tests_unit_wire_test_update_LDADD = $(LIBS_FLOOR1) $(CMOCKA_LIBS)
