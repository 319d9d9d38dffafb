UNIT_TESTS += tests/sim/test-round
tests_sim_test_round_SOURCES = tests/sim/test-round.c tests/sim/sim-round.c tests/sim/sim-round.h \
    tests/sim/sim-internal.h tests/sim/sim-audits.c tests/sim/sim-keeper.c tests/sim/sim-queue.c tests/sim/fake-key.c
tests_sim_test_round_LDADD = $(LIBS_FLOOR2) $(CMOCKA_LIBS)
