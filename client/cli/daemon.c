/* attach, detach, status, pause, resume: what is said to the daemon. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/cli.h"
#include "common/base/alloc.h"
#include "common/swarm/reputation.h"

static struct skep_json *request_of(const char *op)
{
    struct skep_json *request = skep_json_object_new();
    skep_json_set_text(request, "op", op);
    return request;
}

static void print_sentence(const struct skep_json *answer)
{
    const char *sentence = "";
    (void)skep_json_get_text(answer, "status", "sentence", &sentence, NULL);
    puts(sentence);
}

/* Sends and prints the sentence that came of it. */
static int tell(const char *dir, struct skep_json *take_request)
{
    struct skep_error err = {0};
    struct skep_json *answer = NULL;
    char *folder = skep_cli_dir(dir);
    int rc = skep_cli_ask(folder, take_request, &answer, &err);
    free(folder);
    if (rc != 0) {
        return skep_cli_fail(&err);
    }
    print_sentence(answer);
    skep_json_free(answer);
    return 0;
}

static int plain(int argc, char **argv, const char *op, const char *usage)
{
    const char *dir = NULL;
    const struct skep_cli_option options[] = {{"--dir", &dir, NULL}, {NULL, NULL, NULL}};
    enum skep_cli_parsed parsed =
        skep_cli_parse(argc, argv, options, usage, (struct skep_cli_words){0, 0}, NULL);
    if (parsed != SKEP_CLI_GO) {
        return parsed == SKEP_CLI_HELP ? 0 : 2;
    }
    return tell(dir, request_of(op));
}

int skep_cli_detach(int argc, char **argv)
{
    return plain(argc, argv, "detach", "usage: skep detach [--dir DIR]\n");
}

int skep_cli_pause(int argc, char **argv)
{
    return plain(argc, argv, "pause", "usage: skep pause [--dir DIR]\n");
}

int skep_cli_resume(int argc, char **argv)
{
    return plain(argc, argv, "resume", "usage: skep resume [--dir DIR]\n");
}

int skep_cli_attach(int argc, char **argv)
{
    static const char usage[] =
        "usage: skep attach PROJECT [--bootstrap HOST:PORT,...] [--dir DIR]\n"
        "\n"
        "PROJECT is the project's id, 64 hexadecimal digits. --bootstrap names keepers or DHT "
        "nodes\n"
        "to begin with.\n";
    const char *dir = NULL;
    const char *bootstrap = NULL;
    const struct skep_cli_option options[] = {
        {"--dir", &dir, NULL}, {"--bootstrap", &bootstrap, NULL}, {NULL, NULL, NULL}};
    enum skep_cli_parsed parsed =
        skep_cli_parse(argc, argv, options, usage, (struct skep_cli_words){1, 1}, NULL);
    if (parsed != SKEP_CLI_GO) {
        return parsed == SKEP_CLI_HELP ? 0 : 2;
    }
    struct skep_json *request = request_of("attach");
    skep_json_set_text(request, "project", argv[1]);
    if (bootstrap != NULL) {
        skep_json_set_text(request, "bootstrap", bootstrap);
    }
    return tell(dir, request);
}

static void print_status(const struct skep_json *answer)
{
    const char *project = NULL;
    int64_t round = 0;
    int64_t tokens = 0;
    int64_t sent = 0;
    int64_t merged = 0;
    int64_t peers = 0;
    const char *unit = "bits per byte";
    double loss = 0;
    double speed = 0;
    double credit = 0;
    bool audits = false;
    int64_t passed = -1;
    print_sentence(answer);
    if (skep_json_get_text(answer, "status", "project", &project, NULL) != 0) {
        return;
    }
    (void)skep_json_get_integer(answer, "status", "round", 0, INT64_MAX, &round, NULL);
    (void)skep_json_get_integer(answer, "status", "tokens_total", 0, INT64_MAX, &tokens, NULL);
    (void)skep_json_get_integer(answer, "status", "updates_sent", 0, INT64_MAX, &sent, NULL);
    (void)skep_json_get_integer(answer, "status", "updates_merged", 0, INT64_MAX, &merged, NULL);
    (void)skep_json_get_integer(answer, "status", "peers", 0, INT64_MAX, &peers, NULL);
    (void)skep_json_get_real(answer, "status", "loss", 0, 1e9, &loss, NULL);
    (void)skep_json_get_text(answer, "status", "loss_unit", &unit, NULL);
    (void)skep_json_get_real(answer, "status", "tokens_per_s", 0, 1e18, &speed, NULL);
    (void)skep_json_get_real(answer, "status", "credit", 0, 1e18, &credit, NULL);
    (void)skep_json_get_bool(answer, "status", "audits", &audits, NULL);
    if (skep_json_has(answer, "audits_passed")) {
        (void)skep_json_get_integer(answer, "status", "audits_passed", 0, SKEP_PROBATION, &passed,
                                    NULL);
    }
    printf("  project  %s\n", project);
    bool records = strstr(unit, "record") != NULL;
    printf("  round    %lld, loss %.3f %s\n", (long long)round, loss, unit);
    printf("  trained  %lld %s, %.0f per second\n", (long long)tokens,
           records ? "records" : "tokens", speed);
    printf("  updates  %lld sent, %lld merged, credit %.6f\n", (long long)sent, (long long)merged,
           credit);
    if (audits && passed >= 0) {
        printf("  audits   %lld of %u audits passed: the first %u jobs of a new donor are repeated "
               "before they earn credit\n",
               (long long)passed, SKEP_PROBATION, SKEP_PROBATION);
    } else if (audits) {
        printf("  audits   the first %u jobs of a new donor are repeated before they earn credit\n",
               SKEP_PROBATION);
    }
    printf("  keepers  %lld\n", (long long)peers);
}

int skep_cli_status(int argc, char **argv)
{
    static const char usage[] = "usage: skep status [--json] [--dir DIR]\n";
    const char *dir = NULL;
    bool json = false;
    const struct skep_cli_option options[] = {
        {"--dir", &dir, NULL}, {"--json", NULL, &json}, {NULL, NULL, NULL}};
    enum skep_cli_parsed parsed =
        skep_cli_parse(argc, argv, options, usage, (struct skep_cli_words){0, 0}, NULL);
    if (parsed != SKEP_CLI_GO) {
        return parsed == SKEP_CLI_HELP ? 0 : 2;
    }
    struct skep_error err = {0};
    struct skep_json *answer = NULL;
    char *folder = skep_cli_dir(dir);
    int rc = skep_cli_ask(folder, request_of("status"), &answer, &err);
    free(folder);
    if (rc != 0) {
        return skep_cli_fail(&err);
    }
    if (json) {
        char *text = skep_json_write(answer, true);
        puts(text);
        free(text);
    } else {
        print_status(answer);
    }
    skep_json_free(answer);
    return 0;
}
