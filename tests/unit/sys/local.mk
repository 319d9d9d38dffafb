UNIT_TESTS += tests/unit/sys/test-file tests/unit/sys/test-loop tests/unit/sys/test-process \
    tests/unit/sys/test-ipc tests/unit/sys/test-http-server tests/unit/sys/test-http-client \
    tests/unit/sys/test-visits
SYS_TEST_LIBS = common/sys/libskep-sys.a common/crypto/libskep-crypto.a $(LIBS_FLOOR0) \
    $(CRYPTO_LIBS) $(UV_LIBS) $(CURL_LIBS) $(MICROHTTPD_LIBS) $(CMOCKA_LIBS)
tests_unit_sys_test_file_SOURCES = tests/unit/sys/test-file.c
tests_unit_sys_test_file_LDADD = $(SYS_TEST_LIBS)
tests_unit_sys_test_loop_SOURCES = tests/unit/sys/test-loop.c
tests_unit_sys_test_loop_LDADD = $(SYS_TEST_LIBS)
tests_unit_sys_test_process_SOURCES = tests/unit/sys/test-process.c
tests_unit_sys_test_process_LDADD = $(SYS_TEST_LIBS)
tests_unit_sys_test_ipc_SOURCES = tests/unit/sys/test-ipc.c
tests_unit_sys_test_ipc_LDADD = $(SYS_TEST_LIBS)
tests_unit_sys_test_http_server_SOURCES = tests/unit/sys/test-http-server.c \
    tests/unit/sys/http-scene.c tests/unit/sys/http-scene.h
tests_unit_sys_test_http_server_LDADD = $(SYS_TEST_LIBS)
tests_unit_sys_test_http_client_SOURCES = tests/unit/sys/test-http-client.c \
    tests/unit/sys/http-scene.c tests/unit/sys/http-scene.h
tests_unit_sys_test_http_client_LDADD = $(SYS_TEST_LIBS)
tests_unit_sys_test_visits_SOURCES = tests/unit/sys/test-visits.c
tests_unit_sys_test_visits_LDADD = $(SYS_TEST_LIBS)
