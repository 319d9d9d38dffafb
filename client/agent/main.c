/* skepd: the donor's daemon. */
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "client/agent/agent.h"
#include "client/plan/size.h"
#include "common/base/alloc.h"
#include "common/base/log.h"
#include "common/gpu/gpu.h"
#include "common/swarm/job-file.h"
#include "common/sys/file.h"
#include "common/sys/process.h"

static const char usage[] =
    "usage: skepd [--dir DIR] [--attach PROJECT] [--bootstrap HOST:PORT,...] [--listen-host HOST]\n"
    "             [--memory SIZE] [--threads N] [--device DEVICE] [--verbose]\n"
    "\n"
    "Trains for a project when told so: by --attach, or by `skep attach`. Runs in the foreground.\n"
    "  --dir DIR              key, receipts and what is being worked on (default\n"
    "                         ~/.local/share/skep/donor)\n"
    "  --attach PROJECT       attach to this project (64 hexadecimal digits) now\n"
    "  --bootstrap LIST       keepers or DHT nodes to begin with\n"
    "  --listen-host HOST     numeric address of the DHT session, which is opened only when no\n"
    "                         keeper answers directly\n"
    "  --memory SIZE          what training may take of the memory, such as 4GiB (default: half\n"
    "                         of it); a project whose jobs need more is refused\n"
    "  --threads N            that training computes with (default 1)\n"
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

static int read_threads(const char *text, uint32_t *ret_threads, struct skep_error *err)
{
    char *end = NULL;
    unsigned long threads = strtoul(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || threads < 1 ||
        threads > SKEP_JOB_THREADS) {
        return skep_error_set(err, SKEP_ERR_ARGUMENT,
                              "--threads is \"%.40s\"; allowed: a whole number from 1 to %u", text,
                              SKEP_JOB_THREADS);
    }
    *ret_threads = (uint32_t)threads;
    return 0;
}

/* One of the options that say what training may take; a sentence if it makes no sense. */
static int read_limit(int letter, const char *text, struct skep_agent_options *options)
{
    struct skep_error err = {0};
    int rc;
    if (letter == 'm') {
        rc = skep_size_parse("--memory", text, &options->memory_bytes, &err);
        if (rc == 0 && options->memory_bytes == 0) {
            rc = skep_error_set(&err, SKEP_ERR_ARGUMENT, "--memory is 0; allowed: more");
        }
    } else if (letter == 'D') {
        rc = skep_device_parse(text, &options->device, &err);
    } else {
        rc = read_threads(text, &options->threads, &err);
    }
    if (rc != 0) {
        fprintf(stderr, "skepd: %s\n", err.text);
    }
    return rc;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"dir", required_argument, NULL, 'd'},
                                            {"attach", required_argument, NULL, 'a'},
                                            {"bootstrap", required_argument, NULL, 'b'},
                                            {"listen-host", required_argument, NULL, 'l'},
                                            {"memory", required_argument, NULL, 'm'},
                                            {"threads", required_argument, NULL, 't'},
                                            {"device", required_argument, NULL, 'D'},
                                            {"verbose", no_argument, NULL, 'v'},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    struct skep_agent_options chosen = {0};
    enum skep_log_level level = SKEP_LOG_INFO;
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
        case 'm':
        case 't':
        case 'D':
            if (read_limit(letter, optarg, &chosen) != 0) {
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
