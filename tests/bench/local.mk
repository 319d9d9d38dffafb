# bench: BENCHES are programs that `make bench` runs, SCRIPT_BENCHES scripts, and BENCH_PARTS programs that scripts run.

# Loss curves, ours against PyTorch's.
SCRIPT_BENCHES += tests/bench/curves
EXTRA_DIST += tests/bench/curves
EXTRA_PROGRAMS += tests/bench/curve-steps
BENCH_PARTS += tests/bench/curve-steps
tests_bench_curve_steps_SOURCES = tests/bench/curve-steps.c tests/bench/curve.c tests/bench/curve.h tests/lib/model-numbers.h
tests_bench_curve_steps_LDADD = common/model/libskep-model.a $(LIBS_FLOOR1)

# The engine's figures in one run: its own list says of which parts.
SCRIPT_BENCHES += tests/bench/engine
EXTRA_DIST += tests/bench/engine tests/bench/engine-torch.py
EXTRA_PROGRAMS += tests/bench/ffn-stint
BENCH_PARTS += tests/bench/ffn-stint
tests_bench_ffn_stint_SOURCES = tests/bench/ffn-stint.c
tests_bench_ffn_stint_LDADD = common/model/libskep-model.a $(LIBS_FLOOR1)

EXTRA_PROGRAMS += tests/bench/lm-step
BENCH_PARTS += tests/bench/lm-step
tests_bench_lm_step_SOURCES = tests/bench/lm-step.c tests/bench/timed-ops.c tests/bench/timed-ops.h
tests_bench_lm_step_LDADD = common/model/libskep-model.a $(LIBS_FLOOR1)

EXTRA_PROGRAMS += tests/bench/sweep-lm
BENCHES += tests/bench/sweep-lm
tests_bench_sweep_lm_SOURCES = tests/bench/sweep-lm.c tests/bench/lab.c tests/bench/lab.h
tests_bench_sweep_lm_LDADD = $(LIBS_FLOOR2)

# Starts real swarms; `make bench` runs it where the programs are built.
EXTRA_DIST += tests/bench/train-lm

EXTRA_PROGRAMS += tests/bench/engine-ffn
BENCH_PARTS += tests/bench/engine-ffn
tests_bench_engine_ffn_SOURCES = tests/bench/engine-ffn.c tests/bench/timed-ops.c tests/bench/timed-ops.h
tests_bench_engine_ffn_LDADD = $(LIBS_FLOOR2)

# Starts real keepers.
EXTRA_PROGRAMS += tests/bench/engine-remote
BENCH_PARTS += tests/bench/engine-remote
tests_bench_engine_remote_SOURCES = tests/bench/engine-remote.c tests/lib/real-keepers.c tests/lib/real-keepers.h
tests_bench_engine_remote_LDADD = client/libskep-client.a $(LIBS_FLOOR3)

EXTRA_PROGRAMS += tests/bench/engine-stop
BENCHES += tests/bench/engine-stop
tests_bench_engine_stop_SOURCES = tests/bench/engine-stop.c
tests_bench_engine_stop_LDADD = $(LIBS_FLOOR1)

# mnist-remote starts real keepers and takes 20 minutes; its donors also serve tests/integration/test-remote-donor.py.
check_PROGRAMS += tests/bench/mnist-trainer
BENCH_PARTS += tests/bench/mnist-trainer
tests_bench_mnist_trainer_SOURCES = tests/bench/mnist-trainer.c
tests_bench_mnist_trainer_LDADD = client/libskep-client.a $(LIBS_FLOOR3)
SCRIPT_BENCHES += tests/bench/mnist-remote
EXTRA_DIST += tests/bench/mnist-remote

# The worker's memory (a part of engine) and how fast it stops: scripts, which run it on jobs made by tests/integration/make-job.
SCRIPT_BENCHES += tests/bench/worker-stop
EXTRA_DIST += tests/bench/worker-memory tests/bench/worker-stop
BENCH_PARTS += client/skep client/skep-worker tests/integration/make-job

EXTRA_PROGRAMS += tests/bench/merge-speed
BENCHES += tests/bench/merge-speed
tests_bench_merge_speed_SOURCES = tests/bench/merge-speed.c
tests_bench_merge_speed_LDADD = $(LIBS_FLOOR2)


# How far apart honest repetitions of a job are, and how near cheats come: the thresholds of common/swarm/audit.h.
EXTRA_PROGRAMS += tests/bench/audit-replay
BENCHES += tests/bench/audit-replay
tests_bench_audit_replay_SOURCES = tests/bench/audit-replay.c tests/bench/audit-jobs.c tests/bench/audit-jobs.h tests/bench/lab.c tests/bench/lab.h
tests_bench_audit_replay_LDADD = $(LIBS_FLOOR2)

# What the rules of trust do to liars, honest donors and crowds of keys; its scenes also serve tests/unit/swarm/test-trust.
EXTRA_PROGRAMS += tests/bench/trust-sim
BENCHES += tests/bench/trust-sim
tests_bench_trust_sim_SOURCES = tests/bench/trust-sim.c tests/bench/trust-scenes.c tests/bench/trust-scenes.h
tests_bench_trust_sim_LDADD = $(LIBS_FLOOR2)

# The attack grid: attack-cell trains one cell of it, attack-grid runs many and makes the tables.
# tests/integration/test-attack-grid.py runs a few small cells.
SCRIPT_BENCHES += tests/bench/attack-grid
EXTRA_DIST += tests/bench/attack-grid
check_PROGRAMS += tests/bench/attack/attack-cell
BENCH_PARTS += tests/bench/attack/attack-cell
tests_bench_attack_attack_cell_SOURCES = tests/bench/attack/attack-cell.c tests/bench/attack/attacks.c tests/bench/attack/attacks.h \
    tests/bench/attack/cell.h tests/bench/attack/cell-court.c tests/bench/attack/cell-gate.c tests/bench/attack/cell-keeper.c tests/bench/attack/cell-lies.c \
    tests/bench/attack/cell-options.c tests/bench/attack/cell-work.c tests/bench/attack/court.c tests/bench/attack/court.h \
    tests/bench/attack/data.c tests/bench/attack/data.h tests/bench/lab.c tests/bench/lab.h
tests_bench_attack_attack_cell_LDADD = $(LIBS_FLOOR3)
