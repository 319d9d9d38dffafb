noinst_LIBRARIES += common/wire/libskep-wire.a
common_wire_libskep_wire_a_SOURCES =
common_wire_libskep_wire_a_SOURCES += common/wire/update.c common/wire/update.h
common_wire_libskep_wire_a_SOURCES += common/wire/chunks.c common/wire/chunks.h
common_wire_libskep_wire_a_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS) $(CYAML_CFLAGS) $(YAML_CFLAGS)
EXTRA_DIST += common/wire/README.md
