noinst_LIBRARIES += common/store/libskep-store.a
common_store_libskep_store_a_SOURCES =
EXTRA_DIST += common/store/README.md
