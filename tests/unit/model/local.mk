MODEL64_LIBS = common/model/libskep-model64.a $(LIBS_FLOOR1) $(CMOCKA_LIBS)
LM_FIXTURE = tests/unit/model/lm-fixture.c tests/unit/model/lm-fixture.h

UNIT_TESTS += tests/unit/model/test-gradients
tests_unit_model_test_gradients_SOURCES = tests/unit/model/test-gradients.c $(LM_FIXTURE)
tests_unit_model_test_gradients_CPPFLAGS = $(AM_CPPFLAGS) -DSKEP_REAL_DOUBLE
tests_unit_model_test_gradients_LDADD = $(MODEL64_LIBS)
