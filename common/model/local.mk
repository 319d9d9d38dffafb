noinst_LIBRARIES += common/model/libskep-model.a
common_model_libskep_model_a_SOURCES =
EXTRA_DIST += common/model/README.md
