#include "common/sys/http-client.h"

#include <assert.h>
#include <curl/curl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "common/base/alloc.h"
#include "common/base/limits.h"
#include "common/crypto/cert.h"
#include "common/sys/loop-internal.h"

#define CONNECT_MS 5000L
#define EXCHANGE_MS 30000u
#define IDLE_CONNECTIONS 64L /* kept for reuse */
#define IDLE_HANDLES 16u /* making one takes curl longer than a small exchange takes the network */
#define PIN_TEXT_SIZE 64

/* One exchange, from skep_http_send() or skep_http_call() to its end. */
struct transfer {
    struct transfer *next;
    struct transfer *previous;
    struct skep_http_client *client;
    skep_http_callback callback;
    void *user;
    CURL *easy;
    struct curl_slist *headers;
    char *url;
    char *where; /* HOST:PORT, for sentences */
    char *method;
    char *range;
    const uint8_t *body;
    uint8_t *body_copy; /* NULL if the sender keeps it */
    size_t body_size;
    char pin[PIN_TEXT_SIZE]; /* empty: none */
    bool plain;
    long timeout_ms;
    size_t limit;
    struct skep_http_answer answer;
    char complaint[CURL_ERROR_SIZE];
};

struct list {
    struct transfer *first;
    struct transfer *last;
    unsigned count;
};

/* A socket that curl asked us to watch. The handle stands first: closing frees by its address. */
struct watch {
    uv_poll_t uv;
    struct skep_http_client *client;
    curl_socket_t socket;
};

struct skep_http_client {
    struct skep_loop *loop;
    CURLM *multi;
    struct skep_timer *timer; /* curl's own */
    unsigned parallel;
    struct list waiting;
    struct list running;
    CURL *idle[IDLE_HANDLES];
    unsigned idle_count;
    CURL *easy; /* of skep_http_call() */
};

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void start_curl(void)
{
    curl_global_init(CURL_GLOBAL_DEFAULT);
}

/* ---- transfers ---- */

static void list_append(struct list *list, struct transfer *transfer)
{
    transfer->next = NULL;
    transfer->previous = list->last;
    if (list->last != NULL) {
        list->last->next = transfer;
    } else {
        list->first = transfer;
    }
    list->last = transfer;
    list->count++;
}

static void list_remove(struct list *list, struct transfer *transfer)
{
    if (transfer->previous != NULL) {
        transfer->previous->next = transfer->next;
    } else {
        list->first = transfer->next;
    }
    if (transfer->next != NULL) {
        transfer->next->previous = transfer->previous;
    } else {
        list->last = transfer->previous;
    }
    list->count--;
}

static void copy_body(struct transfer *transfer, const struct skep_http_request *request)
{
    const char *type = request->content_type != NULL ? request->content_type : "application/json";
    if (request->body == NULL) {
        return;
    }
    transfer->body = request->body;
    if (!request->body_stays) {
        transfer->body_copy = skep_alloc(request->body_size, 1);
        memcpy(transfer->body_copy, request->body, request->body_size);
        transfer->body = transfer->body_copy;
    }
    transfer->body_size = request->body_size;
    char *header = skep_format("Content-Type: %s", type);
    transfer->headers = curl_slist_append(transfer->headers, header);
    free(header);
}

static void add_authorization(struct transfer *transfer, const char *value)
{
    if (value != NULL) {
        char *header = skep_format("Authorization: %s", value);
        transfer->headers = curl_slist_append(transfer->headers, header);
        free(header);
    }
}

static struct transfer *transfer_new(struct skep_http_client *client,
                                     const struct skep_http_request *request)
{
    assert(request->path[0] == '/' && !(request->plain && request->pin != NULL));
    struct transfer *transfer = skep_alloc(1, sizeof *transfer);
    bool v6 = strchr(request->host, ':') != NULL;
    transfer->client = client;
    transfer->where = skep_format(v6 ? "[%s]:%u" : "%s:%u", request->host, (unsigned)request->port);
    transfer->url =
        skep_format("%s://%s%s", request->plain ? "http" : "https", transfer->where, request->path);
    transfer->method = skep_strdup(request->method);
    transfer->plain = request->plain;
    if (request->ranged) {
        transfer->range = skep_format("%llu-%llu", (unsigned long long)request->range_first,
                                      (unsigned long long)request->range_last);
    }
    if (request->pin != NULL) {
        skep_pin_format(request->pin, transfer->pin);
    }
    transfer->timeout_ms = (long)(request->timeout_ms != 0 ? request->timeout_ms : EXCHANGE_MS);
    transfer->limit = request->limit != 0 ? request->limit : SKEP_LIMIT_HTTP_BODY;
    transfer->answer.body.limit = transfer->limit;
    copy_body(transfer, request);
    add_authorization(transfer, request->authorization);
    return transfer;
}

static void transfer_free(struct transfer *transfer)
{
    curl_slist_free_all(transfer->headers);
    skep_http_answer_done(&transfer->answer);
    free(transfer->body_copy);
    free(transfer->range);
    free(transfer->method);
    free(transfer->where);
    free(transfer->url);
    free(transfer);
}

/* Called by curl with a piece of the answer; taking less than all of it ends the transfer. */
static size_t on_piece(char *data, size_t one, size_t size, void *user)
{
    struct transfer *transfer = user;
    (void)one; /* always 1 */
    return skep_buffer_append(&transfer->answer.body, data, size) == 0 ? size : 0;
}

static void set_method(CURL *easy, const struct transfer *transfer)
{
    if (strcmp(transfer->method, "GET") == 0) {
        curl_easy_setopt(easy, CURLOPT_HTTPGET, 1L);
        return;
    }
    curl_easy_setopt(easy, CURLOPT_POST, 1L);
    curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, transfer->method);
    curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)transfer->body_size);
    curl_easy_setopt(easy, CURLOPT_POSTFIELDS,
                     transfer->body != NULL ? (const char *)transfer->body : "");
}

static void set_trust(CURL *easy, const struct transfer *transfer)
{
    /* No authority vouches for keepers. Without these two NULLs curl would still read the system's whole bundle of
     * authorities for every new connection. */
    curl_easy_setopt(easy, CURLOPT_CAINFO, NULL);
    curl_easy_setopt(easy, CURLOPT_CAPATH, NULL);
    curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 0L);
    curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 0L);
    curl_easy_setopt(easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    if (transfer->pin[0] != 0) {
        curl_easy_setopt(easy, CURLOPT_PINNEDPUBLICKEY, transfer->pin);
    }
}

/* Fills a fresh (or reset) easy handle. */
static void prepare(CURL *easy, struct transfer *transfer)
{
    transfer->easy = easy;
    curl_easy_setopt(easy, CURLOPT_URL, transfer->url);
    curl_easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L);
#if LIBCURL_VERSION_NUM >= 0x075500
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, transfer->plain ? "http" : "https");
#else
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS,
                     (long)(transfer->plain ? CURLPROTO_HTTP : CURLPROTO_HTTPS));
#endif
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(easy, CURLOPT_PROXY, "");
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_MS);
    curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, transfer->timeout_ms);
    curl_easy_setopt(easy, CURLOPT_MAXFILESIZE_LARGE, (curl_off_t)transfer->limit);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_piece);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, transfer);
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, transfer->complaint);
    curl_easy_setopt(easy, CURLOPT_PRIVATE, transfer);
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, transfer->headers);
    curl_easy_setopt(easy, CURLOPT_RANGE, transfer->range);
    set_trust(easy, transfer);
    set_method(easy, transfer);
}

/* curl's verdict as ours, with a sentence; fills in the status. */
static int conclude(struct transfer *transfer, CURLcode code, struct skep_error *err)
{
    long status = 0;
    curl_easy_getinfo(transfer->easy, CURLINFO_RESPONSE_CODE, &status);
    transfer->answer.status = (int)status;
    switch (code) {
    case CURLE_OK:
        return 0;
    case CURLE_WRITE_ERROR:
    case CURLE_FILESIZE_EXCEEDED:
        return skep_error_set(err, SKEP_ERR_TOO_LARGE,
                              "the answer of %s has more than the %zu bytes allowed",
                              transfer->where, transfer->limit);
    case CURLE_SSL_PINNEDPUBKEYNOTMATCH:
        return skep_error_set(err, SKEP_ERR_NETWORK, "%s shows another key than its record",
                              transfer->where);
    case CURLE_OPERATION_TIMEDOUT:
        return skep_error_set(err, SKEP_ERR_NETWORK, "%s did not answer in time (%s)",
                              transfer->where, transfer->complaint);
    default:
        return skep_error_set(err, SKEP_ERR_NETWORK, "%s does not answer: %s", transfer->where,
                              transfer->complaint[0] != 0 ? transfer->complaint
                                                          : curl_easy_strerror(code));
    }
}

void skep_http_answer_done(struct skep_http_answer *answer)
{
    skep_buffer_done(&answer->body);
}

/* ---- many at once, on the loop ---- */

static CURL *handle_take(struct skep_http_client *client)
{
    CURL *easy = client->idle_count > 0 ? client->idle[--client->idle_count] : curl_easy_init();
    assert(easy != NULL);
    return easy;
}

static void handle_give(struct skep_http_client *client, CURL *easy)
{
    if (client->idle_count < IDLE_HANDLES) {
        curl_easy_reset(easy);
        client->idle[client->idle_count++] = easy;
    } else {
        curl_easy_cleanup(easy);
    }
}

static void start_waiting(struct skep_http_client *client)
{
    while (client->running.count < client->parallel && client->waiting.first != NULL) {
        struct transfer *transfer = client->waiting.first;
        list_remove(&client->waiting, transfer);
        list_append(&client->running, transfer);
        CURL *easy = handle_take(client);
        prepare(easy, transfer);
        curl_multi_add_handle(client->multi, easy);
    }
}

/* The transfer has left its list. */
static void finish(struct transfer *transfer, int result, const struct skep_error *err)
{
    if (transfer->easy != NULL) {
        curl_multi_remove_handle(transfer->client->multi, transfer->easy);
        handle_give(transfer->client, transfer->easy);
    }
    transfer->callback(transfer->user, result, &transfer->answer, err);
    transfer_free(transfer);
}

/* Hands over what has ended, then starts what waits. */
static void collect(struct skep_http_client *client)
{
    int left;
    const CURLMsg *message;
    while ((message = curl_multi_info_read(client->multi, &left)) != NULL) {
        if (message->msg != CURLMSG_DONE) {
            continue;
        }
        struct skep_error err = {0};
        char *private = NULL;
        CURLcode code = message->data.result; /* the message dies with the handle */
        curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &private);
        struct transfer *transfer = (struct transfer *)(void *)private;
        int result = conclude(transfer, code, &err);
        list_remove(&client->running, transfer);
        finish(transfer, result, &err);
    }
    start_waiting(client);
}

static void on_timer(void *user)
{
    struct skep_http_client *client = user;
    int running;
    curl_multi_socket_action(client->multi, CURL_SOCKET_TIMEOUT, 0, &running);
    collect(client);
}

static int on_timer_wanted(CURLM *multi, long wait_ms, void *user)
{
    struct skep_http_client *client = user;
    (void)multi;
    if (wait_ms < 0) {
        skep_timer_stop(client->timer);
    } else {
        skep_timer_start(client->timer, (uint64_t)wait_ms, 0);
    }
    return 0;
}

static void on_socket_ready(uv_poll_t *handle, int status, int events)
{
    struct watch *watch = (struct watch *)handle;
    struct skep_http_client *client = watch->client;
    int flags = (events & UV_READABLE ? CURL_CSELECT_IN : 0) |
                (events & UV_WRITABLE ? CURL_CSELECT_OUT : 0) | (status < 0 ? CURL_CSELECT_ERR : 0);
    int running;
    curl_multi_socket_action(client->multi, watch->socket, flags, &running); /* may free watch */
    collect(client);
}

static void on_watch_closed(uv_handle_t *handle)
{
    free(handle);
}

static int on_socket_wanted(CURL *easy, curl_socket_t socket, int what, void *user, void *known)
{
    struct skep_http_client *client = user;
    struct watch *watch = known;
    (void)easy;
    if (what == CURL_POLL_REMOVE) {
        if (watch != NULL) {
            uv_poll_stop(&watch->uv);
            uv_close((uv_handle_t *)&watch->uv, on_watch_closed);
            curl_multi_assign(client->multi, socket, NULL);
        }
        return 0;
    }
    if (watch == NULL) {
        watch = skep_alloc(1, sizeof *watch);
        watch->client = client;
        watch->socket = socket;
        uv_poll_init_socket(skep_loop_uv(client->loop), &watch->uv, socket);
        curl_multi_assign(client->multi, socket, watch);
    }
    uv_poll_start(&watch->uv,
                  (what & CURL_POLL_IN ? UV_READABLE : 0) |
                      (what & CURL_POLL_OUT ? UV_WRITABLE : 0),
                  on_socket_ready);
    return 0;
}

static void set_up_multi(struct skep_http_client *client)
{
    client->multi = curl_multi_init();
    assert(client->multi != NULL);
    client->timer = skep_timer_new(client->loop, on_timer, client);
    curl_multi_setopt(client->multi, CURLMOPT_SOCKETFUNCTION, on_socket_wanted);
    curl_multi_setopt(client->multi, CURLMOPT_SOCKETDATA, client);
    curl_multi_setopt(client->multi, CURLMOPT_TIMERFUNCTION, on_timer_wanted);
    curl_multi_setopt(client->multi, CURLMOPT_TIMERDATA, client);
    curl_multi_setopt(client->multi, CURLMOPT_MAXCONNECTS, IDLE_CONNECTIONS);
}

struct skep_http_client *skep_http_client_new(struct skep_loop *loop, unsigned parallel)
{
    pthread_once(&once, start_curl);
    struct skep_http_client *client = skep_alloc(1, sizeof *client);
    client->loop = loop;
    client->parallel = parallel != 0 ? parallel : 1;
    if (loop != NULL) {
        set_up_multi(client);
    }
    return client;
}

static void cancel_all(struct list *list)
{
    struct skep_error err = {0};
    skep_error_set(&err, SKEP_ERR_CANCELLED, "the request was given up because the program stops");
    while (list->first != NULL) {
        struct transfer *transfer = list->first;
        /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): so that it is not found again */
        list_remove(list, transfer);
        finish(transfer, SKEP_ERR_CANCELLED, &err);
    }
}

void skep_http_client_free(struct skep_http_client *client)
{
    if (client == NULL) {
        return;
    }
    if (client->multi != NULL) {
        client->parallel = 0; /* nothing starts any more */
        cancel_all(&client->running);
        cancel_all(&client->waiting);
        while (client->idle_count > 0) {
            curl_easy_cleanup(client->idle[--client->idle_count]);
        }
        curl_multi_cleanup(client->multi);
        skep_timer_free(client->timer);
    }
    if (client->easy != NULL) {
        curl_easy_cleanup(client->easy);
    }
    free(client);
}

void skep_http_send(struct skep_http_client *client, const struct skep_http_request *request,
                    skep_http_callback callback, void *user)
{
    assert(client->loop != NULL);
    struct transfer *transfer = transfer_new(client, request);
    transfer->callback = callback;
    transfer->user = user;
    list_append(&client->waiting, transfer);
    start_waiting(client); /* curl begins from its timer, so no callback comes from here */
}

/* ---- one at a time ---- */

int skep_http_call(struct skep_http_client *client, const struct skep_http_request *request,
                   struct skep_http_answer *ret_answer, struct skep_error *err)
{
    struct transfer *transfer = transfer_new(client, request);
    if (client->easy == NULL) {
        client->easy = curl_easy_init();
        assert(client->easy != NULL);
    }
    curl_easy_reset(client->easy); /* keeps its connections */
    prepare(client->easy, transfer);
    int result = conclude(transfer, curl_easy_perform(client->easy), err);
    if (result == 0) {
        *ret_answer = transfer->answer;
        transfer->answer = (struct skep_http_answer){0};
    }
    curl_easy_reset(client->easy); /* it must not point into the transfer */
    transfer_free(transfer);
    return result;
}
