UNIT_TESTS += tests/unit/sys/test-file tests/unit/sys/test-loop
SYS_TEST_LIBS = common/sys/libskep-sys.a $(LIBS_FLOOR0) \
    $(UV_LIBS) $(CURL_LIBS) $(MICROHTTPD_LIBS) $(CMOCKA_LIBS)
tests_unit_sys_test_file_SOURCES = tests/unit/sys/test-file.c
tests_unit_sys_test_file_LDADD = $(SYS_TEST_LIBS)
tests_unit_sys_test_loop_SOURCES = tests/unit/sys/test-loop.c
tests_unit_sys_test_loop_LDADD = $(SYS_TEST_LIBS)
