noinst_LIBRARIES += common/wire/libskep-wire.a
common_wire_libskep_wire_a_SOURCES =
EXTRA_DIST += common/wire/README.md
