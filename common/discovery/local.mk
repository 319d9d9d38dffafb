noinst_LIBRARIES += common/discovery/libskep-discovery.a
common_discovery_libskep_discovery_a_SOURCES =
EXTRA_DIST += common/discovery/README.md
