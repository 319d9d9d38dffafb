# The real programs on loopback addresses of their own; test-safetensors.py needs none.
INTEGRATION_TESTS = \
    tests/integration/test-attack-grid.py \
    tests/integration/test-audit.py \
    tests/integration/test-bad-input.py \
    tests/integration/test-classifier.py \
    tests/integration/test-experts.py \
    tests/integration/test-main-path.py \
    tests/integration/test-openapi.py \
    tests/integration/test-plan.py \
    tests/integration/test-probation.py \
    tests/integration/test-remote-donor.py \
    tests/integration/test-safetensors.py \
    tests/integration/test-swarm.py \
    tests/integration/test-tickets.py \
    tests/integration/test-verdicts.py \
    tests/integration/test-worker.py
TESTS += $(INTEGRATION_TESTS)
EXTRA_DIST += $(INTEGRATION_TESTS) tests/integration/lib/skep.py tests/integration/lib/cheat.py

check_PROGRAMS += tests/integration/make-job
tests_integration_make_job_SOURCES = tests/integration/make-job.c tests/lib/job-maker.c \
    tests/lib/job-maker.h
tests_integration_make_job_LDADD = client/libskep-client.a $(LIBS_FLOOR3)

# Over real connections too, but in C.
INTEGRATION_C = tests/integration/test-caller tests/integration/test-lying-keeper
tests_integration_test_caller_SOURCES = tests/integration/test-caller.c tests/lib/real-keepers.c tests/lib/real-keepers.h
tests_integration_test_caller_LDADD = client/libskep-client.a $(LIBS_FLOOR3) $(CMOCKA_LIBS)
tests_integration_test_lying_keeper_SOURCES = tests/integration/test-lying-keeper.c
tests_integration_test_lying_keeper_LDADD = client/libskep-client.a $(LIBS_FLOOR3) $(CMOCKA_LIBS)
if HAVE_CMOCKA
TESTS += $(INTEGRATION_C)
endif
check_PROGRAMS += $(INTEGRATION_C)
