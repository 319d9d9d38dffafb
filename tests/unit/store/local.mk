UNIT_TESTS += tests/unit/store/test-blobs tests/unit/store/test-databases
STORE_PIECES = common/store/libskep-store.a common/sys/libskep-sys.a common/swarm/libskep-swarm.a $(LIBS_FLOOR1) \
    $(SQLITE_LIBS) $(UV_LIBS) $(CURL_LIBS) $(MICROHTTPD_LIBS) $(CMOCKA_LIBS)
tests_unit_store_test_blobs_SOURCES = tests/unit/store/test-blobs.c
tests_unit_store_test_blobs_LDADD = $(STORE_PIECES)
tests_unit_store_test_databases_SOURCES = tests/unit/store/test-databases.c
tests_unit_store_test_databases_LDADD = $(STORE_PIECES)
UNIT_TESTS += tests/unit/store/test-reputation-rows
tests_unit_store_test_reputation_rows_SOURCES = tests/unit/store/test-reputation-rows.c
tests_unit_store_test_reputation_rows_LDADD = $(STORE_PIECES)
UNIT_TESTS += tests/unit/store/test-audit-rows
tests_unit_store_test_audit_rows_SOURCES = tests/unit/store/test-audit-rows.c
tests_unit_store_test_audit_rows_LDADD = $(LIBS_FLOOR3) $(CMOCKA_LIBS)
