MODEL_SOURCES = \
    common/model/attention.c common/model/attention.h \
    common/model/ends.c common/model/ends.h \
    common/model/eval.c \
    common/model/expert.c common/model/expert.h common/model/experts.c common/model/experts.h \
    common/model/gate.c common/model/gate.h \
    common/model/generate.c \
    common/model/layout.c common/model/layout.h \
    common/model/model-memory.c common/model/model-shards.c common/model/model-state.h \
    common/model/model.c common/model/model.h \
    common/model/moments.c \
    common/model/score.c common/model/slice.c common/model/state.c \
    common/model/train.c common/model/train.h

noinst_LIBRARIES += common/model/libskep-model.a
common_model_libskep_model_a_SOURCES = $(MODEL_SOURCES)

# The same arithmetic in float64, for checking gradients against finite differences. Link it before the libraries of floor 1.
check_LIBRARIES += common/model/libskep-model64.a
common_model_libskep_model64_a_SOURCES = $(MODEL_SOURCES) $(TENSOR_SOURCES)
common_model_libskep_model64_a_CPPFLAGS = $(AM_CPPFLAGS) -DSKEP_REAL_DOUBLE $(CBLAS_CFLAGS)
common_model_libskep_model64_a_CFLAGS = $(TENSOR_CFLAGS)
EXTRA_DIST += common/model/README.md
