noinst_LIBRARIES += common/swarm/libskep-swarm.a
common_swarm_libskep_swarm_a_SOURCES =
EXTRA_DIST += common/swarm/README.md
