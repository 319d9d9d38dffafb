noinst_LIBRARIES += common/sys/libskep-sys.a
common_sys_libskep_sys_a_SOURCES = \
    common/sys/clock.c common/sys/clock.h \
    common/sys/file.c common/sys/file.h common/sys/folder.c \
    common/sys/http-client.c common/sys/http-client.h \
    common/sys/http-reply.c common/sys/http-server.c common/sys/http-server.h \
    common/sys/ipc-call.c common/sys/ipc-server.c common/sys/ipc.h \
    common/sys/loop.c common/sys/loop.h common/sys/loop-internal.h \
    common/sys/process.c common/sys/process.h \
    common/sys/visits.c common/sys/visits.h
common_sys_libskep_sys_a_CPPFLAGS = $(AM_CPPFLAGS) $(UV_CFLAGS) $(CURL_CFLAGS) $(MICROHTTPD_CFLAGS) \
    -DSKEP_LIBEXEC_FOLDER='"$(libexecdir)/skep"' -DSKEP_BIN_FOLDER='"$(bindir)"'
EXTRA_DIST += common/sys/README.md
