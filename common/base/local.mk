noinst_LIBRARIES += common/base/libskep-base.a
common_base_libskep_base_a_SOURCES = \
    common/base/alloc.c common/base/alloc.h \
    common/base/bytes.c common/base/bytes.h \
    common/base/error.c common/base/error.h \
    common/base/id.c common/base/id.h \
    common/base/limits.h \
    common/base/log.c common/base/log.h \
    common/base/refusal.c common/base/refusal.h \
    common/base/rng.c common/base/rng.h
EXTRA_DIST += common/base/README.md
