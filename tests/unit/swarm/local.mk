# tests of swarm
UNIT_TESTS += tests/unit/swarm/test-statement tests/unit/swarm/test-rules
tests_unit_swarm_test_statement_SOURCES = tests/unit/swarm/test-statement.c
tests_unit_swarm_test_statement_LDADD = $(LIBS_FLOOR2) $(CMOCKA_LIBS)
tests_unit_swarm_test_rules_SOURCES = tests/unit/swarm/test-rules.c
tests_unit_swarm_test_rules_LDADD = $(LIBS_FLOOR2) $(CMOCKA_LIBS)
UNIT_TESTS += tests/unit/swarm/test-round
tests_unit_swarm_test_round_SOURCES = tests/unit/swarm/test-round.c
tests_unit_swarm_test_round_LDADD = $(LIBS_FLOOR2) $(CMOCKA_LIBS)
UNIT_TESTS += tests/unit/swarm/test-history
tests_unit_swarm_test_history_SOURCES = tests/unit/swarm/test-history.c
tests_unit_swarm_test_history_LDADD = $(LIBS_FLOOR2) $(CMOCKA_LIBS)
UNIT_TESTS += tests/unit/swarm/test-chunk-hash
tests_unit_swarm_test_chunk_hash_SOURCES = tests/unit/swarm/test-chunk-hash.c
tests_unit_swarm_test_chunk_hash_LDADD = $(LIBS_FLOOR2) $(CMOCKA_LIBS)
UNIT_TESTS += tests/unit/swarm/test-reputation
tests_unit_swarm_test_reputation_SOURCES = tests/unit/swarm/test-reputation.c
tests_unit_swarm_test_reputation_LDADD = $(LIBS_FLOOR2) $(CMOCKA_LIBS)
