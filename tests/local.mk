# Tests: one program per file under tests/unit, named test-<module>; scripts under tests/integration.
# Each prints TAP, so every case counts by itself.
CMOCKA_PIECES = $(CMOCKA_LIBS)
BENCH_PARTS =
SCRIPT_BENCHES =
include $(top_srcdir)/tests/unit/base/local.mk
include $(top_srcdir)/tests/unit/crypto/local.mk
include $(top_srcdir)/tests/unit/wire/local.mk
include $(top_srcdir)/tests/unit/tensor/local.mk
include $(top_srcdir)/tests/unit/model/local.mk
include $(top_srcdir)/tests/unit/merge/local.mk
include $(top_srcdir)/tests/unit/swarm/local.mk
include $(top_srcdir)/tests/unit/sys/local.mk
include $(top_srcdir)/tests/unit/discovery/local.mk
include $(top_srcdir)/tests/unit/store/local.mk
include $(top_srcdir)/tests/unit/gpu/local.mk
include $(top_srcdir)/tests/unit/server/local.mk
include $(top_srcdir)/tests/unit/client/local.mk
include $(top_srcdir)/tests/data/local.mk
include $(top_srcdir)/tests/gpu/local.mk
include $(top_srcdir)/tests/house/local.mk
include $(top_srcdir)/tests/sim/local.mk
include $(top_srcdir)/tests/integration/local.mk
include $(top_srcdir)/tests/fuzz/local.mk
include $(top_srcdir)/tests/bench/local.mk

if HAVE_CMOCKA
TESTS += $(UNIT_TESTS)
endif
check_PROGRAMS += $(UNIT_TESTS)

bench: all $(BENCHES) $(BENCH_PARTS)
	@for bench in $(BENCHES) $(SCRIPT_BENCHES:%=$(srcdir)/%); do \
	    case $$bench in /*|.*) ;; *) bench=./$$bench ;; esac; \
	    SKEP_BUILD=. $$bench --quick || test $$? -eq 77 || exit 1; \
	done
.PHONY: bench
