# The client: skepd (the daemon), skep-worker (one process per job), skep (the command).
noinst_LIBRARIES += client/libskep-client.a
client_libskep_client_a_SOURCES = \
    client/network/data.c \
    client/network/fetch.c client/network/fetch.h \
    client/network/heads.c client/network/heads.h \
    client/network/peers.c client/network/peers.h \
    client/network/session.c client/network/session.h \
    client/network/shard.c \
    client/network/transport.c client/network/transport.h
