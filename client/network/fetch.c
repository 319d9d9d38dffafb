#include "client/network/fetch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/alloc.h"
#include "common/base/log.h"
#include "common/crypto/hash.h"

#define RUN_BYTES (4u << 20) /* at most so many in one request */
#define TIMEOUT_MS 20000u

enum chunk_state {
    MISSING,
    ASKED,
    HAVE,
};

struct source {
    struct skep_fetch_source at;
    bool busy;
    bool aside;
    size_t first; /* of the run that is asked for */
    size_t count;
};

struct fetch {
    const struct skep_transport *transport;
    struct skep_fetch_options options; /* its borrowed pointers are not used after the start */
    struct skep_chunks chunks;
    char *path;
    char *part;
    char *url_path;
    int file;
    uint8_t *states; /* enum chunk_state of each chunk */
    size_t left;     /* chunks not HAVE */
    struct source *sources;
    size_t source_count;
    size_t in_flight;
    bool planning;
    int result; /* a failure of ours, such as a full disk */
    struct skep_error err;
};

struct exchange {
    struct fetch *fetch;
    size_t source;
};

static void plan(struct fetch *fetch);

static void fetch_free(struct fetch *fetch)
{
    if (fetch->file >= 0) {
        close(fetch->file);
    }
    skep_chunks_done(&fetch->chunks);
    free(fetch->path);
    free(fetch->part);
    free(fetch->url_path);
    free(fetch->states);
    free(fetch->sources);
    free(fetch);
}

static int io_error(struct fetch *fetch, const char *verb)
{
    int number = errno;
    fetch->result = skep_error_set(&fetch->err, skep_err_from_errno(number), "cannot %s %s: %s",
                                   verb, fetch->part, strerror(number));
    return fetch->result;
}

static bool write_chunk(struct fetch *fetch, size_t i, const uint8_t *data)
{
    size_t size = skep_chunk_size(&fetch->chunks, i);
    uint64_t at = skep_chunk_offset(&fetch->chunks, i);
    while (size > 0) {
        ssize_t written = pwrite(fetch->file, data, size, (off_t)at);
        if (written <= 0) {
            io_error(fetch, "write");
            return false;
        }
        data += written;
        at += (uint64_t)written;
        size -= (size_t)written;
    }
    return true;
}

/* What an earlier fetch left: chunks that check are kept. */
static int resume(struct fetch *fetch)
{
    fetch->file = open(fetch->part, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fetch->file < 0) {
        return io_error(fetch, "open");
    }
    off_t size = lseek(fetch->file, 0, SEEK_END);
    uint8_t *buffer = skep_alloc(1, SKEP_LIMIT_CHUNK_BYTES);
    for (size_t i = 0; i < fetch->chunks.count; i++) {
        size_t length = skep_chunk_size(&fetch->chunks, i);
        off_t at = (off_t)skep_chunk_offset(&fetch->chunks, i);
        if (length > SKEP_LIMIT_CHUNK_BYTES || at + (off_t)length > size ||
            pread(fetch->file, buffer, length, at) != (ssize_t)length) {
            continue;
        }
        struct skep_hash hash = skep_hash_of(buffer, length);
        if (skep_hash_equal(&hash, &fetch->chunks.hashes[i])) {
            fetch->states[i] = HAVE;
            fetch->left--;
        }
    }
    free(buffer);
    if (ftruncate(fetch->file, (off_t)fetch->chunks.size_bytes) != 0) {
        return io_error(fetch, "size");
    }
    return 0;
}

static void set_aside(struct fetch *fetch, struct source *source, bool lied, const char *why)
{
    source->aside = true;
    skep_log(lied ? SKEP_LOG_WARNING : SKEP_LOG_DEBUG, "%s:%u set aside for %s: %s",
             source->at.host, source->at.port, fetch->url_path, why);
    if (fetch->options.on_aside != NULL) {
        fetch->options.on_aside(fetch->options.user, &source->at.keeper, lied);
    }
}

/* Takes the chunks of the source's run out of `data`, whose first byte is the run's. True if all of them checked. */
static bool take_run(struct fetch *fetch, struct source *source, const uint8_t *data, size_t size)
{
    size_t at = 0;
    for (size_t i = source->first; i < source->first + source->count; i++) {
        size_t length = skep_chunk_size(&fetch->chunks, i);
        if (length > size - at) {
            set_aside(fetch, source, false, "the transfer was cut off");
            return false;
        }
        struct skep_hash hash = skep_hash_of(data + at, length);
        if (!skep_hash_equal(&hash, &fetch->chunks.hashes[i])) {
            set_aside(fetch, source, true, "a chunk has the wrong hash");
            return false;
        }
        if (!write_chunk(fetch, i, data + at)) {
            return false;
        }
        fetch->states[i] = HAVE;
        fetch->left--;
        at += length;
    }
    return true;
}

static void take_answer(struct fetch *fetch, struct source *source, int result,
                        const struct skep_http_answer *answer, const struct skep_error *failure)
{
    struct skep_error err = {0};
    bool whole = answer != NULL && answer->status == 200 &&
                 answer->body.size == (size_t)fetch->chunks.size_bytes;
    if (answer != NULL && (answer->status == 206 || whole)) {
        size_t skip = whole ? (size_t)skep_chunk_offset(&fetch->chunks, source->first) : 0;
        take_run(fetch, source, answer->body.data + skip, answer->body.size - skip);
    } else if (skep_answer_check(result, answer, failure, "state", &err) != 0) {
        set_aside(fetch, source, false, err.text);
    } else {
        set_aside(fetch, source, false, "it does not answer ranges");
    }
}

static void on_answer(void *user, int result, const struct skep_http_answer *answer,
                      const struct skep_error *failure)
{
    struct exchange *exchange = user;
    struct fetch *fetch = exchange->fetch;
    struct source *source = &fetch->sources[exchange->source];
    free(exchange);
    source->busy = false;
    fetch->in_flight--;
    if (result == SKEP_ERR_CANCELLED) {
        fetch->result = skep_error_set(&fetch->err, SKEP_ERR_CANCELLED, "the fetch was stopped");
    } else {
        take_answer(fetch, source, result, answer, failure);
    }
    for (size_t i = source->first; i < source->first + source->count; i++) {
        if (fetch->states[i] == ASKED) {
            fetch->states[i] = MISSING;
        }
    }
    plan(fetch);
}

/* The next run of missing chunks: a fair share of what is left, so that all sources work at the same time. */
static bool choose_run(struct fetch *fetch, struct source *source, size_t share)
{
    size_t first = 0;
    while (first < fetch->chunks.count && fetch->states[first] != MISSING) {
        first++;
    }
    size_t count = 0;
    size_t bytes = 0;
    for (size_t i = first; i < fetch->chunks.count && fetch->states[i] == MISSING && count < share;
         i++) {
        bytes += skep_chunk_size(&fetch->chunks, i);
        if (count > 0 && bytes > RUN_BYTES) {
            break;
        }
        count++;
    }
    source->first = first;
    source->count = count;
    return count > 0;
}

static void ask(struct fetch *fetch, size_t index)
{
    struct source *source = &fetch->sources[index];
    size_t last = source->first + source->count - 1;
    memset(fetch->states + source->first, ASKED, source->count);
    source->busy = true;
    fetch->in_flight++;
    struct exchange *exchange = skep_alloc(1, sizeof *exchange);
    *exchange = (struct exchange){.fetch = fetch, .source = index};
    struct skep_http_request request = {
        .method = "GET",
        .host = source->at.host,
        .port = source->at.port,
        .path = fetch->url_path,
        .pin = &source->at.pin,
        .ranged = true,
        .range_first = skep_chunk_offset(&fetch->chunks, source->first),
        .range_last =
            skep_chunk_offset(&fetch->chunks, last) + skep_chunk_size(&fetch->chunks, last) - 1,
        .timeout_ms = TIMEOUT_MS,
    };
    fetch->transport->send(fetch->transport->user, &request, on_answer, exchange);
}

static void finish(struct fetch *fetch)
{
    int result = fetch->result;
    if (result == 0 && fetch->left > 0) {
        result = skep_error_set(&fetch->err, SKEP_ERR_NETWORK,
                                "%zu of %zu chunks of %s are missing and no keeper gives them",
                                fetch->left, fetch->chunks.count, fetch->url_path);
    } else if (result == 0 && fsync(fetch->file) != 0) { /* a whole file is trusted by its name */
        result = io_error(fetch, "write");
    } else if (result == 0 && rename(fetch->part, fetch->path) != 0) {
        result = io_error(fetch, "rename");
    }
    fetch->options.on_done(fetch->options.user, result, &fetch->err);
    fetch_free(fetch);
}

/* Gives work to every idle source; ends the fetch when nothing is in flight and nothing can be asked for. */
static void plan(struct fetch *fetch)
{
    if (fetch->planning) {
        return; /* a transport that answered at once: the loop below goes on */
    }
    fetch->planning = true;
    bool asked = true;
    while (asked && fetch->result == 0 && fetch->left > 0) {
        asked = false;
        size_t live = 0;
        for (size_t i = 0; i < fetch->source_count; i++) {
            live += !fetch->sources[i].aside;
        }
        size_t share = live > 0 ? (fetch->left + live - 1) / live : 0;
        for (size_t i = 0; i < fetch->source_count && fetch->result == 0; i++) {
            struct source *source = &fetch->sources[i];
            if (!source->busy && !source->aside && choose_run(fetch, source, share)) {
                ask(fetch, i);
                asked = true;
            }
        }
    }
    fetch->planning = false;
    if (fetch->in_flight == 0) {
        finish(fetch);
    }
}

static void copy_chunks(const struct skep_chunks *from, struct skep_chunks *to)
{
    *to = *from;
    to->hashes = skep_alloc(from->count > 0 ? from->count : 1, sizeof *to->hashes);
    if (from->count > 0) {
        memcpy(to->hashes, from->hashes, from->count * sizeof *to->hashes);
    }
}

void skep_fetch_start(const struct skep_transport *transport,
                      const struct skep_fetch_options *options)
{
    struct fetch *fetch = skep_alloc(1, sizeof *fetch);
    fetch->transport = transport;
    fetch->options = *options;
    copy_chunks(options->chunks, &fetch->chunks);
    fetch->path = skep_strdup(options->path);
    fetch->part = skep_format("%s.part", options->path);
    fetch->url_path = skep_strdup(options->url_path);
    fetch->states = skep_alloc(fetch->chunks.count + 1, 1);
    fetch->left = fetch->chunks.count;
    fetch->source_count =
        options->source_count < SKEP_LIMIT_KEEPERS ? options->source_count : SKEP_LIMIT_KEEPERS;
    fetch->sources = skep_alloc(fetch->source_count + 1, sizeof *fetch->sources);
    for (size_t i = 0; i < fetch->source_count; i++) {
        fetch->sources[i].at = options->sources[i];
    }
    fetch->file = -1;
    (void)resume(fetch);
    plan(fetch);
}
