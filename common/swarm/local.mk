noinst_LIBRARIES += common/swarm/libskep-swarm.a
common_swarm_libskep_swarm_a_SOURCES = \
    common/swarm/admission.c common/swarm/admission.h \
    common/swarm/credit.c common/swarm/credit.h \
    common/swarm/history.c common/swarm/history.h \
    common/swarm/job-file.c common/swarm/job-file.h \
    common/swarm/records.c common/swarm/records.h \
    common/swarm/replicas.c common/swarm/replicas.h \
    common/swarm/round.c common/swarm/round.h common/swarm/round-internal.h \
    common/swarm/round-actions.c common/swarm/round-agree.c common/swarm/round-hear.c \
    common/swarm/round-lists.c common/swarm/round-proposal.c common/swarm/round-verdicts.c \
    common/swarm/statement.c common/swarm/statement.h \
    common/swarm/donors.c common/swarm/donors.h \
    common/swarm/pace.c common/swarm/pace.h \
    common/swarm/stamp.c common/swarm/stamp.h \
    common/swarm/ticket.c common/swarm/ticket.h \
    common/swarm/update-open.c common/swarm/update-open.h
common_swarm_libskep_swarm_a_SOURCES += common/swarm/chunk-hash.c common/swarm/chunk-hash.h
EXTRA_DIST += common/swarm/README.md
common_swarm_libskep_swarm_a_SOURCES += common/swarm/reputation.c common/swarm/reputation.h common/swarm/audit-policy.c
common_swarm_libskep_swarm_a_SOURCES += common/swarm/audit.c common/swarm/audit.h
