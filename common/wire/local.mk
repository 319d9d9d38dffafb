noinst_LIBRARIES += common/wire/libskep-wire.a
common_wire_libskep_wire_a_SOURCES =
common_wire_libskep_wire_a_SOURCES += common/wire/update.c common/wire/update.h
EXTRA_DIST += common/wire/README.md
