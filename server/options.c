#include "server/options.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bytes.h"

enum option_number {
    OPTION_DIR = 256,
    OPTION_LISTEN,
    OPTION_ANNOUNCE,
    OPTION_DHT_PORT,
    OPTION_BOOTSTRAP,
    OPTION_PEER,
    OPTION_NO_DHT,
    OPTION_OPEN,
    OPTION_PROJECT,
    OPTION_REMOTE_THREADS,
    OPTION_REMOTE_BATCH,
    OPTION_REMOTE_MEMORY,
    OPTION_VERBOSE,
    OPTION_HELP,
    OPTION_VERSION,
};

static const struct option known_options[] = {
    {"dir", required_argument, NULL, OPTION_DIR},
    {"listen", required_argument, NULL, OPTION_LISTEN},
    {"announce", required_argument, NULL, OPTION_ANNOUNCE},
    {"dht-port", required_argument, NULL, OPTION_DHT_PORT},
    {"bootstrap", required_argument, NULL, OPTION_BOOTSTRAP},
    {"peer", required_argument, NULL, OPTION_PEER},
    {"no-dht", no_argument, NULL, OPTION_NO_DHT},
    {"open", no_argument, NULL, OPTION_OPEN},
    {"project", required_argument, NULL, OPTION_PROJECT},
    {"remote-threads", required_argument, NULL, OPTION_REMOTE_THREADS},
    {"remote-batch", required_argument, NULL, OPTION_REMOTE_BATCH},
    {"remote-memory", required_argument, NULL, OPTION_REMOTE_MEMORY},
    {"verbose", no_argument, NULL, OPTION_VERBOSE},
    {"help", no_argument, NULL, OPTION_HELP},
    {"version", no_argument, NULL, OPTION_VERSION},
    {NULL, 0, NULL, 0},
};

const char *skep_options_help(void)
{
    return "Usage: skep-keeper --dir DIR --listen HOST:PORT [OPTION]...\n"
           "Keeps shards of models that a swarm trains: collects updates, merges them, serves "
           "versions.\n"
           "\n"
           "  --dir DIR             keys, certificate, database and files live here; one keeper "
           "per DIR\n"
           "  --listen HOST:PORT    HTTPS on this numeric address; port 0 takes any (see "
           "DIR/address)\n"
           "  --announce HOST:PORT  the address under which others reach this keeper, if it is "
           "another\n"
           "  --dht-port N          UDP port of the DHT on the same host (default: the one after "
           "the\n"
           "                        HTTPS port; 0 takes any, see DIR/dht)\n"
           "  --bootstrap LIST      DHT nodes to start from, HOST:PORT[,HOST:PORT...]\n"
           "  --peer HOST:PORT      another keeper to start from; may be repeated\n"
           "  --no-dht              start no DHT node\n"
           "  --open                take any project that names this keeper (the default)\n"
           "  --project ID          take only this project\n"
           "  --remote-threads N    threads that compute experts for callers (default 1; 0: none)\n"
           "  --remote-batch N      most rows of one expert computed at once (default 2048)\n"
           "  --remote-memory MIB   most memory for gradients of callers, and as much for weights\n"
           "                        (default 512)\n"
           "  --verbose             log more\n"
           "  --help, --version\n"
           "\n"
           "SIGTERM and SIGINT: tells the other keepers that it leaves, then ends with status 0.\n"
           "Exit status: 0 done, 1 other, 2 wrong option, 4 broken file, 5 disk, 7 port or DIR in "
           "use.\n";
}

/* The address at `text`; port 0 is allowed only where any free port will do. */
static int parse_address(const char *option, const char *text, bool zero_allowed,
                         struct skep_address *ret_address, struct skep_error *err)
{
    size_t size = strlen(text);
    bool zero = size > 2 && strcmp(text + size - 2, ":0") == 0;
    char other[SKEP_ADDRESS_TEXT_SIZE + 16];
    if (zero && zero_allowed && size < sizeof other) {
        memcpy(other, text, size + 1);
        other[size - 1] = '1'; /* skep_address_parse() may refuse port 0 */
        if (skep_address_parse(other, ret_address)) {
            ret_address->port = 0;
            return SKEP_OK;
        }
    }
    if (!zero && skep_address_parse(text, ret_address)) {
        return SKEP_OK;
    }
    return skep_error_set(err, SKEP_ERR_ARGUMENT,
                          "--%s is \"%.80s\"; it must be a numeric address and a port, like "
                          "192.0.2.7:7411 or [2001:db8::7]:7411",
                          option, text);
}

static int parse_port(const char *text, struct skep_options *options, struct skep_error *err)
{
    char *end = NULL;
    long port = strtol(text, &end, 10);
    if (*text == '\0' || *end != '\0' || port < 0 || port > 65535) {
        return skep_error_set(err, SKEP_ERR_ARGUMENT,
                              "--dht-port is \"%.40s\"; it must be a number from 0 to 65535", text);
    }
    options->dht_port = (uint16_t)port;
    options->dht_port_given = true;
    return SKEP_OK;
}

static int parse_peer(const char *text, struct skep_options *options, struct skep_error *err)
{
    if (options->peer_count == SKEP_OPTION_PEERS) {
        return skep_error_set(err, SKEP_ERR_ARGUMENT, "--peer is given more than %u times",
                              SKEP_OPTION_PEERS);
    }
    int result = parse_address("peer", text, false, &options->peers[options->peer_count], err);
    options->peer_count += result == SKEP_OK;
    return result;
}

static int parse_project(const char *text, struct skep_options *options, struct skep_error *err)
{
    if (!skep_hex_decode(text, options->project.bytes, SKEP_ID_SIZE)) {
        return skep_error_set(err, SKEP_ERR_ARGUMENT,
                              "--project is \"%.80s\"; it must be 64 lower-case hexadecimal digits",
                              text);
    }
    options->only_project = true;
    return SKEP_OK;
}

static int parse_number(const char *option, const char *text, long least, long most,
                        long *ret_number, struct skep_error *err)
{
    char *end = NULL;
    long number = strtol(text, &end, 10);
    if (*text == '\0' || *end != '\0' || number < least || number > most) {
        return skep_error_set(err, SKEP_ERR_ARGUMENT,
                              "--%s is \"%.40s\"; it must be a number from %ld to %ld", option,
                              text, least, most);
    }
    *ret_number = number;
    return SKEP_OK;
}

static int parse_remote(int option, const char *text, struct skep_options *options,
                        struct skep_error *err)
{
    long number = 0;
    int result = SKEP_OK;
    if (option == OPTION_REMOTE_THREADS) {
        result = parse_number("remote-threads", text, 0, 256, &number, err);
        options->remote_threads = (unsigned)number;
    } else if (option == OPTION_REMOTE_BATCH) {
        result = parse_number("remote-batch", text, 1, 65536, &number, err);
        options->remote_batch = (size_t)number;
    } else {
        result = parse_number("remote-memory", text, 1, 1 << 20, &number, err);
        options->remote_memory = (size_t)number << 20;
    }
    return result;
}

static int parse_one(int number, char **argv, struct skep_options *options, struct skep_error *err)
{
    switch (number) {
    case OPTION_DIR:
        options->dir = optarg;
        return SKEP_OK;
    case OPTION_LISTEN:
        return parse_address("listen", optarg, true, &options->listen, err);
    case OPTION_ANNOUNCE:
        return parse_address("announce", optarg, false, &options->announce, err);
    case OPTION_DHT_PORT:
        return parse_port(optarg, options, err);
    case OPTION_BOOTSTRAP:
        options->bootstrap = optarg;
        return SKEP_OK;
    case OPTION_PEER:
        return parse_peer(optarg, options, err);
    case OPTION_NO_DHT:
        options->dht = false;
        return SKEP_OK;
    case OPTION_OPEN:
        options->only_project = false;
        return SKEP_OK;
    case OPTION_PROJECT:
        return parse_project(optarg, options, err);
    case OPTION_REMOTE_THREADS:
    case OPTION_REMOTE_BATCH:
    case OPTION_REMOTE_MEMORY:
        return parse_remote(number, optarg, options, err);
    case OPTION_VERBOSE:
        options->verbose = true;
        return SKEP_OK;
    case OPTION_HELP:
        options->wish = SKEP_WISH_HELP;
        return SKEP_OK;
    case OPTION_VERSION:
        options->wish = SKEP_WISH_VERSION;
        return SKEP_OK;
    default:
        return skep_error_set(err, SKEP_ERR_ARGUMENT,
                              "\"%s\" is no option of skep-keeper or lacks its value; --help lists "
                              "them",
                              argv[optind - 1]);
    }
}

static int check_options(const struct skep_options *options, struct skep_error *err)
{
    if (options->wish != SKEP_WISH_RUN) {
        return SKEP_OK;
    }
    if (options->dir == NULL || options->listen.host[0] == '\0') {
        return skep_error_set(err, SKEP_ERR_ARGUMENT, "%s is missing; --help lists the options",
                              options->dir == NULL ? "--dir DIR" : "--listen HOST:PORT");
    }
    const char *host = options->listen.host;
    bool everywhere = strcmp(host, "0.0.0.0") == 0 || strcmp(host, "::") == 0;
    if (everywhere && options->announce.host[0] == '\0') {
        return skep_error_set(err, SKEP_ERR_ARGUMENT,
                              "--listen is %s, which nobody can connect to; say with --announce "
                              "HOST:PORT under which address others reach this keeper",
                              host);
    }
    return SKEP_OK;
}

int skep_options_parse(int argc, char **argv, struct skep_options *ret_options,
                       struct skep_error *err)
{
    struct skep_options options = {.dht = true,
                                   .remote_threads = SKEP_OPTION_REMOTE_THREADS,
                                   .remote_batch = SKEP_OPTION_REMOTE_BATCH,
                                   .remote_memory = (size_t)SKEP_OPTION_REMOTE_MIB << 20};
    optind = 1;
    opterr = 0;
    for (;;) {
        int number = getopt_long(argc, argv, "", known_options, NULL);
        if (number == -1) {
            break;
        }
        int result = parse_one(number, argv, &options, err);
        if (result != SKEP_OK) {
            return result;
        }
    }
    if (optind < argc) {
        return skep_error_set(err, SKEP_ERR_ARGUMENT,
                              "\"%s\" is not an option; skep-keeper takes only options",
                              argv[optind]);
    }
    int result = check_options(&options, err);
    if (result == SKEP_OK) {
        *ret_options = options;
    }
    return result;
}
