/* skepd: the donor's daemon. */
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "client/agent/agent.h"
#include "common/base/alloc.h"
#include "common/base/log.h"
#include "common/sys/file.h"
#include "common/sys/process.h"

static const char usage[] =
    "usage: skepd [--dir DIR] [--attach PROJECT] [--bootstrap HOST:PORT,...] [--listen-host HOST] "
    "[--device DEVICE] [--verbose]\n"
    "\n"
    "Trains for a project when told so: by --attach, or by `skep attach`. Runs in the foreground.\n"
    "  --dir DIR              key, receipts and what is being worked on (default\n"
    "                         ~/.local/share/skep/donor)\n"
    "  --attach PROJECT       attach to this project (64 hexadecimal digits) now\n"
    "  --bootstrap LIST       keepers or DHT nodes to begin with\n"
    "  --listen-host HOST     numeric address of the DHT session, which is opened only when no\n"
    "                         keeper answers directly\n"
    "  --device DEVICE        compute on cpu (default), cuda (an NVIDIA GPU, or say why not), or "
    "auto\n"
    "                         (the GPU if there is one that works, else the CPU)\n"
    "  --verbose              say more on stderr\n";

static void on_signal(void *user, int signal_number)
{
    skep_log(SKEP_LOG_INFO, "stopping on signal %d", signal_number);
    skep_agent_quit(user);
}

static int run(const struct skep_agent_options *options)
{
    struct skep_loop *loop = skep_loop_new();
    struct skep_agent *agent = NULL;
    struct skep_error err = {0};
    int rc = skep_agent_open(loop, options, &agent, &err);
    if (rc == 0) {
        skep_loop_on_signal(loop, SIGTERM, on_signal, agent);
        skep_loop_on_signal(loop, SIGINT, on_signal, agent);
        skep_log(SKEP_LOG_INFO, "donor %s in %s", skep_id_text(agent->id.bytes), options->dir);
        skep_loop_run(loop);
    } else {
        fprintf(stderr, "skepd: %s\n", err.text);
    }
    skep_agent_close(agent);
    skep_loop_free(loop);
    return skep_err_exit_status((enum skep_err)rc);
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"dir", required_argument, NULL, 'd'},
                                            {"attach", required_argument, NULL, 'a'},
                                            {"bootstrap", required_argument, NULL, 'b'},
                                            {"listen-host", required_argument, NULL, 'l'},
                                            {"device", required_argument, NULL, 'D'},
                                            {"verbose", no_argument, NULL, 'v'},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    struct skep_agent_options chosen = {0};
    enum skep_log_level level = SKEP_LOG_INFO;
    struct skep_error err = {0};
    int letter;
    skep_process_follow();
    while ((letter = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (letter) {
        case 'd':
            chosen.dir = optarg;
            break;
        case 'a':
            chosen.attach = optarg;
            break;
        case 'b':
            chosen.bootstrap = optarg;
            break;
        case 'l':
            chosen.listen_host = optarg;
            break;
        case 'D':
            if (skep_device_parse(optarg, &chosen.device, &err) != 0) {
                fprintf(stderr, "skepd: %s\n", err.text);
                return 2;
            }
            break;
        case 'v':
            level = SKEP_LOG_DEBUG;
            break;
        case 'h':
            fputs(usage, stdout);
            return 0;
        default:
            fputs(usage, stderr);
            return 2;
        }
    }
    if (optind != argc) {
        fprintf(stderr, "skepd: unexpected word \"%s\"\n%s", argv[optind], usage);
        return 2;
    }
    char *root = skep_folder_default();
    char *dir = chosen.dir != NULL ? skep_strdup(chosen.dir) : skep_format("%s/donor", root);
    chosen.dir = dir;
    skep_log_configure(level, "skepd", NULL);
    int status = run(&chosen);
    free(dir);
    free(root);
    return status;
}
