#include "server/host.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/alloc.h"
#include "common/base/log.h"
#include "common/crypto/cert.h"
#include "common/crypto/random.h"
#include "common/discovery/dht.h"
#include "common/swarm/stamp.h"
#include "common/sys/file.h"
#include "server/agreement.h"
#include "server/api/api.h"
#include "server/audit.h"
#include "server/experts.h"
#include "server/peers.h"
#include "server/project.h"
#include "server/sync.h"

#define KEY_FILE_BYTES 65536u
#define PARALLEL_REQUESTS 64u
#define PRIVATE_MODE 0600
#define PUBLIC_MODE 0644

char *skep_host_path(const struct skep_host *host, const char *name)
{
    return skep_format("%s/%s", host->options.dir, name);
}

struct skep_project *skep_host_project(struct skep_host *host, const struct skep_project_id *id)
{
    for (size_t i = 0; i < host->project_count; i++) {
        if (memcmp(host->projects[i]->manifest.project.bytes, id->bytes, SKEP_ID_SIZE) == 0) {
            return host->projects[i];
        }
    }
    return NULL;
}

static int write_named(const struct skep_host *host, const char *name, mode_t mode,
                       const char *text, struct skep_error *err)
{
    char *path = skep_host_path(host, name);
    int result = skep_file_write(path, mode, text, strlen(text), err);
    free(path);
    return result;
}

/* The file's text, zero-terminated; NULL in *ret_text if there is no such file. */
static int read_named(const struct skep_host *host, const char *name, char **ret_text,
                      struct skep_error *err)
{
    char *path = skep_host_path(host, name);
    struct skep_buffer data = {0};
    int result = SKEP_OK;
    *ret_text = NULL;
    if (skep_file_exists(path)) {
        result = skep_file_read(path, KEY_FILE_BYTES, &data, err);
        if (result == SKEP_OK) {
            skep_buffer_append_u8(&data, 0);
            *ret_text = (char *)data.data;
        }
    }
    if (*ret_text == NULL) {
        skep_buffer_done(&data);
    }
    free(path);
    return result;
}

/* The keeper's identity: made at the first start, never again. */
static int load_key(struct skep_host *host, struct skep_error *err)
{
    char *pem = NULL;
    int result = read_named(host, "key.pem", &pem, err);
    if (result == SKEP_OK && pem != NULL) {
        result = skep_key_from_pem(pem, strlen(pem), &host->key, err);
        if (result != SKEP_OK) {
            skep_error_prefix(err, "%s/key.pem", host->options.dir);
        }
    } else if (result == SKEP_OK) {
        host->key = skep_key_new();
        pem = skep_key_to_pem(host->key);
        result = write_named(host, "key.pem", PRIVATE_MODE, pem, err);
    }
    free(pem);
    if (result == SKEP_OK) {
        host->id = skep_key_id(host->key);
    }
    return result;
}

/* The TLS certificate; the record pins its key, so a new one is no loss. */
static int load_certificate(struct skep_host *host, struct skep_error *err)
{
    int result = read_named(host, "tls-cert.pem", &host->cert_pem, err);
    if (result == SKEP_OK) {
        result = read_named(host, "tls-key.pem", &host->tls_key_pem, err);
    }
    if (result == SKEP_OK && (host->cert_pem == NULL || host->tls_key_pem == NULL)) {
        free(host->cert_pem);
        free(host->tls_key_pem);
        skep_cert_new(skep_id_text(host->id.bytes), &host->cert_pem, &host->tls_key_pem);
        result = write_named(host, "tls-key.pem", PRIVATE_MODE, host->tls_key_pem, err);
        if (result == SKEP_OK) {
            result = write_named(host, "tls-cert.pem", PUBLIC_MODE, host->cert_pem, err);
        }
    }
    if (result == SKEP_OK) {
        result = skep_cert_pin(host->cert_pem, strlen(host->cert_pem), &host->tls_pin, err);
    }
    return result;
}

static int open_storage(struct skep_host *host, struct skep_error *err)
{
    char *path = skep_host_path(host, "blobs");
    int result = skep_blobs_open(path, &host->blobs, err);
    free(path);
    if (result == SKEP_OK) {
        path = skep_host_path(host, "keeper.db");
        result = skep_keeper_db_open(path, &host->db, err);
        free(path);
    }
    return result;
}

/* "host:port", with brackets around IPv6; the caller frees. */
static char *format_address(const char *host, uint16_t port)
{
    return strchr(host, ':') != NULL ? skep_format("[%s]:%u", host, port)
                                     : skep_format("%s:%u", host, port);
}

/* What DIR/address and DIR/dht hold. */
static int write_address(const struct skep_host *host, const char *name, uint16_t port,
                         struct skep_error *err)
{
    char *text = format_address(host->options.listen.host, port);
    char *line = skep_format("%s\n", text);
    int result = write_named(host, name, PUBLIC_MODE, line, err);
    free(line);
    free(text);
    return result;
}

static int open_server(struct skep_host *host, struct skep_error *err)
{
    struct skep_http_server_options options = {.host = host->options.listen.host,
                                               .port = host->options.listen.port,
                                               .cert_pem = host->cert_pem,
                                               .key_pem = host->tls_key_pem,
                                               .body_limit = SKEP_LIMIT_HTTP_BODY,
                                               .connections = SKEP_LIMIT_HTTP_CONNECTIONS,
                                               .timeout_s = SKEP_LIMIT_HTTP_TIMEOUT_S};
    int result =
        skep_http_server_open(host->loop, &options, skep_api_handle, host, &host->server, err);
    if (result == SKEP_OK) {
        host->port = skep_http_server_port(host->server);
        result = write_address(host, "address", host->port, err);
    }
    return result;
}

static int open_directory(struct skep_host *host, struct skep_error *err)
{
    if (!host->options.dht) {
        return SKEP_OK;
    }
    char *state = skep_host_path(host, "dht-state");
    const char *address = host->options.listen.host;
    bool loopback = strncmp(address, "127.", 4) == 0 || strcmp(address, "::1") == 0;
    /* Not the HTTPS port itself: libtorrent takes the TCP port of its UDP port's number too. */
    struct skep_dht_options options = {
        .host = address,
        .port = host->options.dht_port_given ? host->options.dht_port : (uint16_t)(host->port + 1),
        .bootstrap = host->options.bootstrap,
        .map_ports = !loopback,
        .state_path = state};
    int result = skep_dht_open(host->loop, &options, &host->directory, err);
    free(state);
    if (result == SKEP_OK) {
        result = write_address(host, "dht", skep_dht_port(host->directory), err);
    }
    return result;
}

static int open_all(struct skep_host *host, struct skep_error *err)
{
    int result = skep_folder_make(host->options.dir, err);
    if (result == SKEP_OK) {
        char *path = skep_host_path(host, "lock");
        result = skep_lock_take(path, "skep-keeper", &host->lock, err);
        free(path);
    }
    if (result == SKEP_OK) {
        result = load_key(host, err);
    }
    if (result == SKEP_OK) {
        result = load_certificate(host, err);
    }
    if (result == SKEP_OK) {
        result = open_storage(host, err);
    }
    if (result != SKEP_OK) {
        return result;
    }
    host->loop = skep_loop_new();
    host->started_ms = skep_loop_now_ms(host->loop);
    host->client = skep_http_client_new(host->loop, PARALLEL_REQUESTS);
    host->peers = skep_peers_new(host);
    host->agreement = skep_agreement_new(host);
    host->sync = skep_sync_new(host);
    host->stamps = skep_stamps_new(skep_random_u64());
    result = skep_audit_open(host, &host->audit, err);
    if (result == SKEP_OK) {
        result = skep_project_load_all(host, err);
    }
    if (result == SKEP_OK) {
        result = skep_remote_open(host, &host->remote, err);
    }
    if (result == SKEP_OK) {
        result = open_server(host, err);
    }
    if (result == SKEP_OK) {
        result = open_directory(host, err);
    }
    if (result == SKEP_OK) {
        skep_peers_start(host->peers);
        skep_sync_start(host->sync);
    }
    return result;
}

int skep_host_open(const struct skep_options *options, struct skep_host **ret_host,
                   struct skep_error *err)
{
    struct skep_host *host = skep_alloc(1, sizeof *host);
    host->options = *options;
    host->lock = -1;
    uint64_t seed = 0;
    skep_random_bytes(&seed, sizeof seed);
    host->rng = skep_rng_of(seed);
    int result = open_all(host, err);
    if (result != SKEP_OK) {
        skep_host_close(host);
        return result;
    }
    *ret_host = host;
    return SKEP_OK;
}

static void on_signal(void *user, int signal_number)
{
    struct skep_host *host = user;
    if (host->leaving) {
        skep_loop_stop(host->loop); /* asked twice: no goodbyes */
        return;
    }
    skep_log(SKEP_LOG_INFO, "signal %d: leaving", signal_number);
    host->leaving = true;
    skep_peers_leave(host->peers);
}

static void print_ready(const struct skep_host *host)
{
    char *address = format_address(host->options.listen.host, host->port);
    char *dht = host->directory == NULL
                    ? skep_strdup("off")
                    : format_address(host->options.listen.host, skep_dht_port(host->directory));
    printf("skep-keeper %s listening on https://%s dht %s\n", skep_id_text(host->id.bytes), address,
           dht);
    fflush(stdout);
    free(dht);
    free(address);
}

void skep_host_run(struct skep_host *host)
{
    skep_loop_on_signal(host->loop, SIGTERM, on_signal, host);
    skep_loop_on_signal(host->loop, SIGINT, on_signal, host);
    print_ready(host);
    skep_loop_run(host->loop);
}

void skep_host_close(struct skep_host *host)
{
    if (host == NULL) {
        return;
    }
    /* Whoever can still call back goes first, whatever is called back after it. */
    if (host->directory != NULL) {
        skep_directory_close(host->directory);
    }
    skep_remote_close(host->remote);
    if (host->server != NULL) {
        skep_http_server_close(host->server);
    }
    host->leaving = true;
    if (host->client != NULL) {
        skep_http_client_free(host->client);
    }
    skep_audit_close(host->audit);
    skep_sync_free(host->sync);
    skep_agreement_free(host->agreement);
    skep_peers_free(host->peers);
    for (size_t i = 0; i < host->project_count; i++) {
        skep_project_free(host->projects[i]);
    }
    skep_stamps_free(host->stamps);
    if (host->loop != NULL) {
        skep_loop_free(host->loop);
    }
    if (host->db != NULL) {
        skep_keeper_db_close(host->db);
    }
    if (host->blobs != NULL) {
        skep_blobs_close(host->blobs);
    }
    skep_key_free(host->key);
    free(host->cert_pem);
    free(host->tls_key_pem);
    if (host->lock >= 0) {
        close(host->lock);
    }
    free(host);
}
