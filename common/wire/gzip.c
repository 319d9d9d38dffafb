#include "common/wire/gzip.h"

#include <stdint.h>
#include <string.h>

#include <zlib.h>

#define BLOCK (1u << 16)
#define INPUT_MOST (1u << 30) /* zlib counts in 32 bits */
#define GZIP_ONLY (16 + MAX_WBITS)

bool skep_gzip_is(const void *data, size_t size)
{
    return size >= 2 && memcmp(data, "\x1f\x8b", 2) == 0;
}

/* One file on its way through zlib. */
struct unpacking {
    const char *name;
    z_stream stream;
    const uint8_t *at;
    size_t left; /* not yet given to zlib */
    size_t most;
    struct skep_buffer *text;
};

static int refuse(const struct unpacking *unpacking, const char *what, struct skep_error *err)
{
    return skep_error_set(err, SKEP_ERR_FORMAT,
                          "%s is no whole gzip file: %s after %zu bytes of "
                          "content",
                          unpacking->name, what, unpacking->text->size);
}

static void feed(struct unpacking *unpacking)
{
    z_stream *stream = &unpacking->stream;
    if (stream->avail_in == 0) {
        size_t size = unpacking->left < INPUT_MOST ? unpacking->left : INPUT_MOST;
        stream->next_in = (z_const Bytef *)unpacking->at;
        stream->avail_in = (uInt)size;
        unpacking->at += size;
        unpacking->left -= size;
    }
}

/* To the end of one member. */
static int unpack_member(struct unpacking *unpacking, struct skep_error *err)
{
    uint8_t block[BLOCK];
    z_stream *stream = &unpacking->stream;
    for (int status = Z_OK; status != Z_STREAM_END;) {
        feed(unpacking);
        stream->next_out = block;
        stream->avail_out = sizeof block;
        status = inflate(stream, Z_NO_FLUSH);
        size_t got = sizeof block - stream->avail_out;
        if (got > unpacking->most - unpacking->text->size) {
            return skep_error_set(err, SKEP_ERR_TOO_LARGE,
                                  "%s unpacks to more than %zu bytes, the largest data set",
                                  unpacking->name, unpacking->most);
        }
        skep_buffer_append(unpacking->text, block, got);
        if (status == Z_BUF_ERROR) { /* it wants more and there is none */
            return refuse(unpacking, "it is cut off", err);
        }
        if (status != Z_OK && status != Z_STREAM_END) {
            return refuse(unpacking, stream->msg != NULL ? stream->msg : "it is broken", err);
        }
    }
    return SKEP_OK;
}

int skep_gzip_unpack(const char *name, const void *data, size_t size, size_t most,
                     struct skep_buffer *ret_text, struct skep_error *err)
{
    struct unpacking unpacking = {
        .name = name, .at = data, .left = size, .most = most, .text = ret_text};
    if (inflateInit2(&unpacking.stream, GZIP_ONLY) != Z_OK) {
        return skep_error_set(err, SKEP_ERR_MEMORY, "no memory to unpack %s", name);
    }
    int rc = SKEP_OK;
    do {
        rc = unpack_member(&unpacking, err);
    } while (rc == SKEP_OK && (unpacking.stream.avail_in > 0 || unpacking.left > 0) &&
             inflateReset(&unpacking.stream) == Z_OK);
    inflateEnd(&unpacking.stream);
    if (rc != SKEP_OK) {
        skep_buffer_done(ret_text);
    }
    return rc;
}
