noinst_LIBRARIES += common/discovery/libskep-discovery.a
common_discovery_libskep_discovery_a_SOURCES = \
    common/discovery/directory.c common/discovery/directory.h common/discovery/directory-private.h \
    common/discovery/dht.cpp common/discovery/dht.h
common_discovery_libskep_discovery_a_CPPFLAGS = $(AM_CPPFLAGS) $(TORRENT_CFLAGS)
# Programs are linked as C, where clang has no run-time for checks of C++ types; AddressSanitizer stays.
common_discovery_libskep_discovery_a_CXXFLAGS = $(AM_CXXFLAGS) -fno-sanitize=undefined
EXTRA_DIST += common/discovery/README.md
