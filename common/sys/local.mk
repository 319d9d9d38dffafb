noinst_LIBRARIES += common/sys/libskep-sys.a
common_sys_libskep_sys_a_SOURCES =
EXTRA_DIST += common/sys/README.md
