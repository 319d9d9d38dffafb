noinst_LIBRARIES += common/merge/libskep-merge.a
common_merge_libskep_merge_a_SOURCES =
EXTRA_DIST += common/merge/README.md
