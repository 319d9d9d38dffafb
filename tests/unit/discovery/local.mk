UNIT_TESTS += tests/unit/discovery/test-dht tests/unit/discovery/test-directory
DISCOVERY_PIECES = common/discovery/libskep-discovery.a common/sys/libskep-sys.a $(LIBS_FLOOR1) \
    $(TORRENT_LIBS) -lstdc++ $(UV_LIBS) $(CURL_LIBS) $(MICROHTTPD_LIBS) $(CMOCKA_LIBS)
tests_unit_discovery_test_dht_SOURCES = tests/unit/discovery/test-dht.c
tests_unit_discovery_test_dht_LDADD = $(DISCOVERY_PIECES)
tests_unit_discovery_test_directory_SOURCES = tests/unit/discovery/test-directory.c
tests_unit_discovery_test_directory_LDADD = $(DISCOVERY_PIECES)
