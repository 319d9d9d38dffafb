bin_PROGRAMS += server/skep-keeper
noinst_LIBRARIES += server/libskep-server.a
server_libskep_server_a_SOURCES = \
    server/agreement.c server/agreement.h \
    server/api/about.c server/api/api.h \
    server/api/audits.c \
    server/api/blobs.c \
    server/api/directory.c \
    server/api/experts.c \
    server/api/messages.c \
    server/api/projects.c \
    server/api/reply.c server/api/reply.h \
    server/api/router.c server/api/router.h \
    server/api/routes.c \
    server/api/updates.c \
    server/api/versions.c \
    server/api/metrics.c \
    server/beacons.c server/beacons.h \
    server/audit.c server/audit.h \
    server/audit-asked.c server/audit-asked.h \
    server/audit-internal.h \
    server/audit-job.c server/audit-job.h \
    server/audit-lots.c \
    server/audit-queue.c server/audit-queue.h \
    server/audit-take.c \
    server/audit-verdict.c server/audit-verdict.h \
    server/catch-up.c server/catch-up.h \
    server/evidence.c server/evidence.h \
    server/experts.c server/experts.h \
    server/experts-pass.c server/experts-pass.h \
    server/experts-queue.c server/experts-queue.h \
    server/experts-sessions.c server/experts-sessions.h \
    server/host.c server/host.h \
    server/intake.c server/intake.h \
    server/options.c server/options.h \
    server/outbox.c server/outbox.h \
    server/peers.c server/peers.h \
    server/project.c server/project.h \
    server/shape.c server/shape.h \
    server/shard.c server/shard.h server/shard-seals.c \
    server/sync.c server/sync.h \
    server/trust.c server/trust.h
server_skep_keeper_SOURCES = server/main.c
server_skep_keeper_LDADD = server/libskep-server.a $(LIBS_FLOOR3)
EXTRA_DIST += server/README.md
