noinst_LIBRARIES += common/merge/libskep-merge.a
common_merge_libskep_merge_a_SOURCES =
common_merge_libskep_merge_a_SOURCES += common/merge/compress.c common/merge/compress.h
common_merge_libskep_merge_a_SOURCES += common/merge/fixed.c common/merge/fixed.h
common_merge_libskep_merge_a_SOURCES += common/merge/merge.c common/merge/merge.h
common_merge_libskep_merge_a_SOURCES += common/merge/gram.h common/merge/weights.c common/merge/weights.h
common_merge_libskep_merge_a_SOURCES += common/merge/gate.c common/merge/gate.h
EXTRA_DIST += common/merge/README.md
