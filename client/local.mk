# The client: skepd (the daemon), skep-worker (one process per job), skep (the command).
EXTRA_DIST += client/README.md
noinst_LIBRARIES += client/libskep-client.a
client_libskep_client_a_SOURCES = \
    client/agent/agent-internal.h \
    client/agent/agent.c client/agent/agent.h \
    client/agent/attachment.c client/agent/attachment.h \
    client/agent/control.c \
    client/agent/identity.c client/agent/identity.h \
    client/agent/job.c client/agent/job.h \
    client/agent/outbox.c client/agent/outbox.h \
    client/agent/project.c \
    client/agent/receipts.c client/agent/receipts.h \
    client/agent/rows.c client/agent/rows.h \
    client/agent/showing.c client/agent/showing.h \
    client/agent/stamp.c client/agent/stamp.h \
    client/agent/states.c client/agent/states.h \
    client/agent/training.c \
    client/cli/dataset.c client/cli/dataset.h \
    client/cli/split.c client/cli/split.h \
    client/network/data.c \
    client/network/experts.c client/network/experts.h client/network/experts-internal.h \
    client/network/experts-update.c \
    client/network/fetch.c client/network/fetch.h \
    client/network/heads.c client/network/heads.h \
    client/network/peers.c client/network/peers.h \
    client/network/session.c client/network/session.h \
    client/network/shard.c \
    client/network/transport.c client/network/transport.h \
    client/plan/plan.c client/plan/plan.h \
    client/plan/size.c client/plan/size.h \
    client/remote/donor.c client/remote/donor.h client/remote/donor-internal.h \
    client/remote/donor-threads.c \
    client/remote/gathering.c client/remote/gathering.h \
    client/remote/slice.c client/remote/slice.h \
    client/worker/checkpoint.c client/worker/checkpoint.h \
    client/worker/flat.c client/worker/flat.h \
    client/worker/parts.c client/worker/parts.h \
    client/worker/stream.c client/worker/stream.h \
    client/worker/work.c client/worker/work.h

bin_PROGRAMS += client/skepd
client_skepd_SOURCES = client/agent/main.c
client_skepd_LDADD = client/libskep-client.a $(LIBS_FLOOR3)

skepexec_PROGRAMS = client/skep-worker
skepexecdir = $(libexecdir)/skep
client_skep_worker_SOURCES = client/worker/main.c
client_skep_worker_LDADD = client/libskep-client.a $(LIBS_FLOOR3)

bin_PROGRAMS += client/skep
client_skep_SOURCES = \
    client/cli/cli.h \
    client/cli/credit.c \
    client/cli/daemon.c \
    client/cli/eval.c \
    client/cli/main.c \
    client/cli/plan.c \
    client/cli/fetched.c client/cli/fetched.h \
    client/cli/options.c \
    client/cli/project.c \
    client/cli/publish.c client/cli/publish.h \
    client/cli/use.c \
    client/swarm/figures.c client/swarm/figures.h \
    client/swarm/members.c client/swarm/members.h \
    client/swarm/options.c client/swarm/options.h \
    client/swarm/swarm.c client/swarm/swarm.h \
    client/swarm/view.c client/swarm/view.h
client_skep_CPPFLAGS = $(AM_CPPFLAGS) $(NCURSES_CFLAGS)
client_skep_LDADD = client/libskep-client.a $(LIBS_FLOOR3) $(NCURSES_LIBS)
