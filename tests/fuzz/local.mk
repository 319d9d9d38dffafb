# Fuzz targets. Configured with --enable-fuzz CC=clang CXX=clang++ they are built by `make fuzz` and run by packaging/fuzz-smoke; else
# each is a test that replays its corpus.
FUZZ_TARGETS = \
    tests/fuzz/fuzz-answers \
    tests/fuzz/fuzz-chunks \
    tests/fuzz/fuzz-envelope \
    tests/fuzz/fuzz-idx \
    tests/fuzz/fuzz-json \
    tests/fuzz/fuzz-manifest \
    tests/fuzz/fuzz-round \
    tests/fuzz/fuzz-safetensors \
    tests/fuzz/fuzz-state \
    tests/fuzz/fuzz-statements \
    tests/fuzz/fuzz-task \
    tests/fuzz/fuzz-text \
    tests/fuzz/fuzz-update
if FUZZ
EXTRA_PROGRAMS += $(FUZZ_TARGETS)
CLEANFILES += $(FUZZ_TARGETS)
FUZZ_COMMON = tests/fuzz/fuzz.h
else
check_PROGRAMS += $(FUZZ_TARGETS)
TESTS += $(FUZZ_TARGETS)
FUZZ_COMMON = tests/fuzz/fuzz.h tests/fuzz/replay.c
endif
EXTRA_DIST += tests/fuzz/corpus tests/fuzz/replay.c

tests_fuzz_fuzz_answers_SOURCES = tests/fuzz/fuzz-answers.c $(FUZZ_COMMON)
tests_fuzz_fuzz_answers_LDADD = client/libskep-client.a $(LIBS_FLOOR3) $(FUZZ_ENGINE)
tests_fuzz_fuzz_chunks_SOURCES = tests/fuzz/fuzz-chunks.c $(FUZZ_COMMON)
tests_fuzz_fuzz_chunks_LDADD = $(LIBS_FLOOR2) $(FUZZ_ENGINE)
tests_fuzz_fuzz_envelope_SOURCES = tests/fuzz/fuzz-envelope.c $(FUZZ_COMMON)
tests_fuzz_fuzz_envelope_LDADD = $(LIBS_FLOOR1) $(FUZZ_ENGINE)
tests_fuzz_fuzz_idx_SOURCES = tests/fuzz/fuzz-idx.c $(FUZZ_COMMON)
tests_fuzz_fuzz_idx_LDADD = $(LIBS_FLOOR1) $(FUZZ_ENGINE)
tests_fuzz_fuzz_json_SOURCES = tests/fuzz/fuzz-json.c $(FUZZ_COMMON)
tests_fuzz_fuzz_json_LDADD = $(LIBS_FLOOR1) $(FUZZ_ENGINE)
tests_fuzz_fuzz_manifest_SOURCES = tests/fuzz/fuzz-manifest.c $(FUZZ_COMMON)
tests_fuzz_fuzz_manifest_LDADD = $(LIBS_FLOOR1) $(FUZZ_ENGINE)
tests_fuzz_fuzz_round_SOURCES = tests/fuzz/fuzz-round.c tests/sim/fake-key.c $(FUZZ_COMMON)
tests_fuzz_fuzz_round_LDADD = $(LIBS_FLOOR2) $(FUZZ_ENGINE)
tests_fuzz_fuzz_safetensors_SOURCES = tests/fuzz/fuzz-safetensors.c $(FUZZ_COMMON)
tests_fuzz_fuzz_safetensors_LDADD = $(LIBS_FLOOR1) $(FUZZ_ENGINE)
tests_fuzz_fuzz_state_SOURCES = tests/fuzz/fuzz-state.c $(FUZZ_COMMON)
tests_fuzz_fuzz_state_LDADD = $(LIBS_FLOOR2) $(FUZZ_ENGINE)
tests_fuzz_fuzz_statements_SOURCES = tests/fuzz/fuzz-statements.c $(FUZZ_COMMON)
tests_fuzz_fuzz_statements_LDADD = $(LIBS_FLOOR1) $(FUZZ_ENGINE)
tests_fuzz_fuzz_task_SOURCES = tests/fuzz/fuzz-task.c $(FUZZ_COMMON)
tests_fuzz_fuzz_task_LDADD = $(LIBS_FLOOR1) $(FUZZ_ENGINE)
tests_fuzz_fuzz_text_SOURCES = tests/fuzz/fuzz-text.c $(FUZZ_COMMON)
tests_fuzz_fuzz_text_LDADD = $(LIBS_FLOOR3) $(FUZZ_ENGINE)
tests_fuzz_fuzz_update_SOURCES = tests/fuzz/fuzz-update.c $(FUZZ_COMMON)
tests_fuzz_fuzz_update_LDADD = $(LIBS_FLOOR2) $(FUZZ_ENGINE)

fuzz: $(FUZZ_TARGETS)
.PHONY: fuzz
