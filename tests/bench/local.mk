# bench

EXTRA_PROGRAMS += tests/bench/lm-step
BENCHES += tests/bench/lm-step
tests_bench_lm_step_SOURCES = tests/bench/lm-step.c
tests_bench_lm_step_LDADD = common/model/libskep-model.a $(LIBS_FLOOR1)

EXTRA_PROGRAMS += tests/bench/sweep-lm
BENCHES += tests/bench/sweep-lm
tests_bench_sweep_lm_SOURCES = tests/bench/sweep-lm.c
tests_bench_sweep_lm_LDADD = $(LIBS_FLOOR2)

# Starts real swarms; `make bench` runs it where the programs are built.
EXTRA_DIST += tests/bench/train-lm

EXTRA_PROGRAMS += tests/bench/engine-ffn
BENCHES += tests/bench/engine-ffn
tests_bench_engine_ffn_SOURCES = tests/bench/engine-ffn.c tests/bench/timed-ops.c tests/bench/timed-ops.h
tests_bench_engine_ffn_LDADD = common/model/libskep-model.a $(LIBS_FLOOR1)

# Starts real keepers.
EXTRA_PROGRAMS += tests/bench/engine-remote
BENCHES += tests/bench/engine-remote
tests_bench_engine_remote_SOURCES = tests/bench/engine-remote.c tests/lib/real-keepers.c tests/lib/real-keepers.h
tests_bench_engine_remote_LDADD = client/libskep-client.a $(LIBS_FLOOR3)
