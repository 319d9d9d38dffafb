noinst_LIBRARIES += common/store/libskep-store.a
common_store_libskep_store_a_SOURCES = \
    common/store/blobs.c common/store/blobs.h \
    common/store/database.c common/store/database.h \
    common/store/donor-db.c common/store/donor-db.h \
    common/store/keeper-audits.c common/store/keeper-audits.h \
    common/store/keeper-db.c common/store/keeper-db.h \
    common/store/keeper-receipts.c common/store/keeper-reputation.c common/store/keeper-private.h \
    common/store/schema.h
nodist_common_store_libskep_store_a_SOURCES = common/store/schema.c
common_store_libskep_store_a_CPPFLAGS = $(AM_CPPFLAGS) $(SQLITE_CFLAGS)

# The schemas as C strings.
SQL_SCHEMAS = schemas/sql/keeper.sql schemas/sql/donor.sql
common/store/schema.c: $(SQL_SCHEMAS) common/store/local.mk
	$(AM_V_GEN)$(MKDIR_P) common/store && { \
	  echo '#include "common/store/schema.h"'; \
	  for name in keeper donor; do \
	    echo "const char skep_$${name}_schema[] ="; \
	    sed -e 's/ *--.*//' -e '/^$$/d' -e 's/.*/    "&\\n"/' "$(srcdir)/schemas/sql/$$name.sql"; \
	    echo '    ;'; \
	  done; } > $@.new && mv $@.new $@
CLEANFILES += common/store/schema.c
EXTRA_DIST += common/store/README.md $(SQL_SCHEMAS)
