noinst_LIBRARIES += common/discovery/libskep-discovery.a
common_discovery_libskep_discovery_a_SOURCES = \
    common/discovery/directory.c common/discovery/directory.h common/discovery/directory-private.h
EXTRA_DIST += common/discovery/README.md
