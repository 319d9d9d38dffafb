/* skep-keeper: one work server of a swarm. */
#include <signal.h>
#include <stdio.h>

#include "common/base/error.h"
#include "common/base/log.h"
#include "common/sys/process.h"
#include "config.h"
#include "server/host.h"
#include "server/options.h"

static int fail(const struct skep_error *err)
{
    fprintf(stderr, "skep-keeper: %s\n", err->text);
    return skep_err_exit_status(err->code);
}

int main(int argc, char **argv)
{
    skep_process_follow();
    struct skep_options options;
    struct skep_error err = {0};
    if (skep_options_parse(argc, argv, &options, &err) != SKEP_OK) {
        return fail(&err);
    }
    if (options.wish == SKEP_WISH_HELP) {
        fputs(skep_options_help(), stdout);
        return 0;
    }
    if (options.wish == SKEP_WISH_VERSION) {
        puts("skep-keeper " PACKAGE_VERSION);
        return 0;
    }
    skep_log_configure(options.verbose ? SKEP_LOG_DEBUG : SKEP_LOG_INFO, "skep-keeper", NULL);
    /* A vanished reader and a file size limit are errors of one write, not the end of the keeper. */
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    struct skep_host *host = NULL;
    if (skep_host_open(&options, &host, &err) != SKEP_OK) {
        return fail(&err);
    }
    skep_host_run(host);
    skep_host_close(host);
    return 0;
}
