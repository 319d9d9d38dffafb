# tests of wire
UNIT_TESTS += tests/unit/wire/test-update
tests_unit_wire_test_update_SOURCES = tests/unit/wire/test-update.c tests/lib/cmocka.h tests/lib/vectors.h
tests_unit_wire_test_update_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=calloc -Wl,--wrap=malloc -Wl,--wrap=realloc
tests_unit_wire_test_update_LDADD = $(LIBS_FLOOR1) $(CMOCKA_LIBS)

UNIT_TESTS += tests/unit/wire/test-json
tests_unit_wire_test_json_SOURCES = tests/unit/wire/test-json.c
tests_unit_wire_test_json_LDADD = $(LIBS_FLOOR1) $(CMOCKA_LIBS)
UNIT_TESTS += tests/unit/wire/test-manifest
tests_unit_wire_test_manifest_SOURCES = tests/unit/wire/test-manifest.c \
    tests/unit/wire/examples.c tests/unit/wire/examples.h tests/lib/vectors.h
tests_unit_wire_test_manifest_LDADD = $(LIBS_FLOOR1) $(CMOCKA_LIBS)
UNIT_TESTS += tests/unit/wire/test-statements
tests_unit_wire_test_statements_SOURCES = tests/unit/wire/test-statements.c \
    tests/unit/wire/examples.c tests/unit/wire/examples.h
tests_unit_wire_test_statements_LDADD = $(LIBS_FLOOR1) $(CMOCKA_LIBS)
check_PROGRAMS += tests/unit/wire/statement-tool
tests_unit_wire_statement_tool_SOURCES = tests/unit/wire/statement-tool.c \
    tests/unit/wire/examples.c tests/unit/wire/examples.h
tests_unit_wire_statement_tool_LDADD = $(LIBS_FLOOR1)
TESTS += tests/unit/wire/test-schemas.py
EXTRA_DIST += tests/unit/wire/test-schemas.py
UNIT_TESTS += tests/unit/wire/test-safetensors
tests_unit_wire_test_safetensors_SOURCES = tests/unit/wire/test-safetensors.c tests/lib/vectors.h
tests_unit_wire_test_safetensors_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=calloc
tests_unit_wire_test_safetensors_LDADD = $(LIBS_FLOOR1) $(CMOCKA_LIBS)
UNIT_TESTS += tests/unit/wire/test-task
tests_unit_wire_test_task_SOURCES = tests/unit/wire/test-task.c
tests_unit_wire_test_task_LDADD = $(LIBS_FLOOR1) $(CMOCKA_LIBS)
UNIT_TESTS += tests/unit/wire/test-idx
tests_unit_wire_test_idx_SOURCES = tests/unit/wire/test-idx.c
tests_unit_wire_test_idx_LDADD = $(LIBS_FLOOR1) $(CMOCKA_LIBS)
check_PROGRAMS += tests/unit/wire/safetensors-tool
tests_unit_wire_safetensors_tool_SOURCES = tests/unit/wire/safetensors-tool.c
tests_unit_wire_safetensors_tool_LDADD = $(LIBS_FLOOR1)
