/* skep: the command. Finds the subcommand in the table and hands over. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "client/cli/cli.h"
#include "client/swarm/swarm.h"
#include "common/base/log.h"
#include "common/sys/process.h"

static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *what;
} commands[] = {
    {"attach", skep_cli_attach, "let the daemon train for a project"},
    {"detach", skep_cli_detach, "let it stop training for any"},
    {"status", skep_cli_status, "what the daemon does and why"},
    {"pause", skep_cli_pause, "let it rest"},
    {"resume", skep_cli_resume, "let it go on"},
    {"credit", skep_cli_credit, "list and verify what was earned, offline"},
    {"project", skep_cli_project, "init, publish: describe a project and give it to keepers"},
    {"plan", skep_cli_plan, "what a project takes of a machine"},
    {"export", skep_cli_export, "write the newest model as safetensors"},
    {"generate", skep_cli_generate, "let the newest model write text"},
    {"eval", skep_cli_eval, "measure the newest model on the held-out data"},
    {"swarm", skep_swarm_main, "run a private swarm on this machine"},
};

static void usage(FILE *to)
{
    fputs("usage: skep COMMAND ...\n\n", to);
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        fprintf(to, "  %-10s %s\n", commands[i].name, commands[i].what);
    }
    fputs("\nskep COMMAND --help tells more.\n", to);
}

int main(int argc, char **argv)
{
    skep_log_configure(SKEP_LOG_ERROR, "skep", NULL);
    skep_process_follow();
    signal(SIGPIPE, SIG_IGN);
    if (argc < 2) {
        usage(stderr);
        return 2;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "help") == 0) {
        usage(stdout);
        return 0;
    }
    if (strcmp(argv[1], "--version") == 0) {
        puts("skep 0.1.0");
        return 0;
    }
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        if (strcmp(argv[1], commands[i].name) == 0) {
            return commands[i].run(argc - 1, argv + 1);
        }
    }
    fprintf(stderr, "skep: there is no command \"%s\"; skep --help lists them\n", argv[1]);
    return 2;
}
