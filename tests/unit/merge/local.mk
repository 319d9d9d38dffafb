# tests of merge
UNIT_TESTS += tests/unit/merge/test-compress tests/unit/merge/test-merge
tests_unit_merge_test_compress_SOURCES = tests/unit/merge/test-compress.c
tests_unit_merge_test_compress_LDADD = common/merge/libskep-merge.a $(LIBS_FLOOR1) $(CMOCKA_LIBS)
tests_unit_merge_test_merge_SOURCES = tests/unit/merge/test-merge.c
tests_unit_merge_test_merge_LDADD = common/merge/libskep-merge.a $(LIBS_FLOOR1) $(CMOCKA_LIBS)
UNIT_TESTS += tests/unit/merge/test-rules tests/unit/merge/test-round-properties
tests_unit_merge_test_rules_SOURCES = tests/unit/merge/test-rules.c tests/unit/merge/merge-scene.c tests/unit/merge/merge-scene.h
tests_unit_merge_test_rules_LDADD = common/merge/libskep-merge.a $(LIBS_FLOOR1) $(CMOCKA_LIBS)
tests_unit_merge_test_round_properties_SOURCES = tests/unit/merge/test-round-properties.c tests/unit/merge/merge-scene.c tests/unit/merge/merge-scene.h
tests_unit_merge_test_round_properties_LDADD = common/merge/libskep-merge.a $(LIBS_FLOOR1) $(CMOCKA_LIBS)
TESTS += tests/unit/merge/test-reference.py
EXTRA_DIST += tests/unit/merge/test-reference.py
UNIT_TESTS += tests/unit/merge/test-weights tests/unit/merge/test-gate
tests_unit_merge_test_weights_SOURCES = tests/unit/merge/test-weights.c
tests_unit_merge_test_weights_LDADD = common/merge/libskep-merge.a $(LIBS_FLOOR1) $(CMOCKA_LIBS) -lm
tests_unit_merge_test_gate_SOURCES = tests/unit/merge/test-gate.c
tests_unit_merge_test_gate_LDADD = common/merge/libskep-merge.a $(LIBS_FLOOR1) $(CMOCKA_LIBS)
UNIT_TESTS += tests/unit/merge/test-same-bits
tests_unit_merge_test_same_bits_SOURCES = tests/unit/merge/test-same-bits.c tests/unit/merge/corpus.c tests/unit/merge/corpus.h
tests_unit_merge_test_same_bits_LDADD = common/merge/libskep-merge.a $(LIBS_FLOOR1)
TESTS += tests/unit/merge/test-corpus.py
EXTRA_DIST += tests/unit/merge/test-corpus.py

UNIT_TESTS += tests/unit/merge/test-standing
tests_unit_merge_test_standing_SOURCES = tests/unit/merge/test-standing.c
tests_unit_merge_test_standing_LDADD = common/merge/libskep-merge.a $(LIBS_FLOOR1) $(CMOCKA_LIBS)
