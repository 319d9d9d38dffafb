# bench

EXTRA_PROGRAMS += tests/bench/lm-step
BENCHES += tests/bench/lm-step
tests_bench_lm_step_SOURCES = tests/bench/lm-step.c
tests_bench_lm_step_LDADD = common/model/libskep-model.a $(LIBS_FLOOR1)
