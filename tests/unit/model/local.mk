MODEL64_LIBS = common/model/libskep-model64.a $(LIBS_FLOOR1) $(CMOCKA_LIBS)
MODEL_FIXTURE = tests/unit/model/model-fixture.c tests/unit/model/model-fixture.h
SPOILED_OPS = tests/unit/model/spoiled-ops.c tests/unit/model/spoiled-ops.h

UNIT_TESTS += tests/unit/model/test-gradients
tests_unit_model_test_gradients_SOURCES = tests/unit/model/test-gradients.c $(MODEL_FIXTURE)
tests_unit_model_test_gradients_CPPFLAGS = $(AM_CPPFLAGS) -DSKEP_REAL_DOUBLE
tests_unit_model_test_gradients_LDADD = $(MODEL64_LIBS)

UNIT_TESTS += tests/unit/model/test-classifier
tests_unit_model_test_classifier_SOURCES = tests/unit/model/test-classifier.c $(MODEL_FIXTURE)
tests_unit_model_test_classifier_LDADD = common/model/libskep-model.a $(LIBS_FLOOR1) $(CMOCKA_LIBS)

UNIT_TESTS += tests/unit/model/test-calls
tests_unit_model_test_calls_SOURCES = tests/unit/model/test-calls.c $(MODEL_FIXTURE)
tests_unit_model_test_calls_CPPFLAGS = $(AM_CPPFLAGS) -DSKEP_REAL_DOUBLE
tests_unit_model_test_calls_LDADD = $(MODEL64_LIBS)

UNIT_TESTS += tests/unit/model/test-passes
tests_unit_model_test_passes_SOURCES = tests/unit/model/test-passes.c $(SPOILED_OPS) $(MODEL_FIXTURE)
tests_unit_model_test_passes_LDADD = common/model/libskep-model.a $(LIBS_FLOOR1) $(CMOCKA_LIBS)

UNIT_TESTS += tests/unit/model/test-resume
tests_unit_model_test_resume_SOURCES = tests/unit/model/test-resume.c $(SPOILED_OPS) $(MODEL_FIXTURE)
tests_unit_model_test_resume_LDADD = common/model/libskep-model.a $(LIBS_FLOOR1) $(CMOCKA_LIBS)

UNIT_TESTS += tests/unit/model/test-layout
tests_unit_model_test_layout_SOURCES = tests/unit/model/test-layout.c $(MODEL_FIXTURE)
tests_unit_model_test_layout_LDADD = common/model/libskep-model.a $(LIBS_FLOOR1) $(CMOCKA_LIBS)

UNIT_TESTS += tests/unit/model/test-lm
tests_unit_model_test_lm_SOURCES = tests/unit/model/test-lm.c $(MODEL_FIXTURE)
tests_unit_model_test_lm_LDADD = common/model/libskep-model.a $(LIBS_FLOOR1) $(CMOCKA_LIBS)

UNIT_TESTS += tests/unit/model/test-train
tests_unit_model_test_train_SOURCES = tests/unit/model/test-train.c $(MODEL_FIXTURE)
tests_unit_model_test_train_LDADD = common/model/libskep-model.a $(LIBS_FLOOR1) $(CMOCKA_LIBS)

UNIT_TESTS += tests/unit/model/test-state
tests_unit_model_test_state_SOURCES = tests/unit/model/test-state.c $(MODEL_FIXTURE)
tests_unit_model_test_state_LDADD = common/model/libskep-model.a $(LIBS_FLOOR1) $(CMOCKA_LIBS)
