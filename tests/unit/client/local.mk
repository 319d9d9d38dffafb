# tests of client
UNIT_TESTS += tests/unit/client/test-rows
tests_unit_client_test_rows_SOURCES = tests/unit/client/test-rows.c
tests_unit_client_test_rows_LDADD = client/libskep-client.a $(LIBS_FLOOR3) $(CMOCKA_LIBS)

UNIT_TESTS += tests/unit/client/test-states
tests_unit_client_test_states_SOURCES = tests/unit/client/test-states.c
tests_unit_client_test_states_LDADD = client/libskep-client.a $(LIBS_FLOOR3) $(CMOCKA_LIBS)

UNIT_TESTS += tests/unit/client/test-job-file
tests_unit_client_test_job_file_SOURCES = tests/unit/client/test-job-file.c
tests_unit_client_test_job_file_LDADD = client/libskep-client.a $(LIBS_FLOOR3) $(CMOCKA_LIBS)

UNIT_TESTS += tests/unit/client/test-fetch
tests_unit_client_test_fetch_SOURCES = tests/unit/client/test-fetch.c
tests_unit_client_test_fetch_LDADD = client/libskep-client.a $(LIBS_FLOOR3) $(CMOCKA_LIBS)

UNIT_TESTS += tests/unit/client/test-split
tests_unit_client_test_split_SOURCES = tests/unit/client/test-split.c
tests_unit_client_test_split_LDADD = client/libskep-client.a $(LIBS_FLOOR3) $(CMOCKA_LIBS)

UNIT_TESTS += tests/unit/client/test-dataset
tests_unit_client_test_dataset_SOURCES = tests/unit/client/test-dataset.c
tests_unit_client_test_dataset_LDADD = client/libskep-client.a $(LIBS_FLOOR3) $(CMOCKA_LIBS)

UNIT_TESTS += tests/unit/client/test-plan
tests_unit_client_test_plan_SOURCES = tests/unit/client/test-plan.c
tests_unit_client_test_plan_LDADD = client/libskep-client.a $(LIBS_FLOOR3) $(CMOCKA_LIBS)

UNIT_TESTS += tests/unit/client/test-receipts
tests_unit_client_test_receipts_SOURCES = tests/unit/client/test-receipts.c
tests_unit_client_test_receipts_LDADD = client/libskep-client.a $(LIBS_FLOOR3) $(CMOCKA_LIBS)

UNIT_TESTS += tests/unit/client/test-outbox
tests_unit_client_test_outbox_SOURCES = tests/unit/client/test-outbox.c \
    tests/unit/client/fake-keepers.c tests/unit/client/fake-keepers.h tests/lib/tiny-model.h
tests_unit_client_test_outbox_LDADD = client/libskep-client.a $(LIBS_FLOOR3) $(CMOCKA_LIBS)

UNIT_TESTS += tests/unit/client/test-shard
tests_unit_client_test_shard_SOURCES = tests/unit/client/test-shard.c \
    tests/unit/client/fake-keepers.c tests/unit/client/fake-keepers.h tests/lib/tiny-model.h
tests_unit_client_test_shard_LDADD = client/libskep-client.a $(LIBS_FLOOR3) $(CMOCKA_LIBS)

UNIT_TESTS += tests/unit/client/test-gathering
tests_unit_client_test_gathering_SOURCES = tests/unit/client/test-gathering.c
tests_unit_client_test_gathering_LDADD = client/libskep-client.a $(LIBS_FLOOR3) $(CMOCKA_LIBS)
UNIT_TESTS += tests/unit/client/test-stamp
tests_unit_client_test_stamp_SOURCES = tests/unit/client/test-stamp.c
tests_unit_client_test_stamp_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=skep_stamp_try
tests_unit_client_test_stamp_LDADD = client/libskep-client.a $(LIBS_FLOOR3) $(CMOCKA_LIBS)

UNIT_TESTS += tests/unit/client/test-showing
tests_unit_client_test_showing_SOURCES = tests/unit/client/test-showing.c \
    tests/unit/client/fake-keepers.c tests/unit/client/fake-keepers.h tests/lib/tiny-model.h
tests_unit_client_test_showing_LDADD = client/libskep-client.a $(LIBS_FLOOR3) $(CMOCKA_LIBS)
