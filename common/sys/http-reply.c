/* The helpers of http-server.h by which handlers fill their replies. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/sys/http-server.h"

/* Our messages are plain sentences; what would need escapes in JSON becomes a question mark or, for quotes, an apostrophe. */
static char plain(char c)
{
    if (c == '"' || c == '\\') {
        return '\'';
    }
    if ((unsigned char)c < 0x20 || (unsigned char)c >= 0x7f) {
        return '?';
    }
    return c;
}

void skep_http_reply_error(struct skep_http_reply *reply, int status, const char *code,
                           const char *message)
{
    char sentence[512];
    char text[640];
    size_t length = 0;
    while (message[length] != 0 && length < sizeof sentence - 1) {
        sentence[length] = plain(message[length]);
        length++;
    }
    sentence[length] = 0;
    snprintf(text, sizeof text, "{\"error\":{\"code\":\"%.64s\",\"message\":\"%s\"}}", code,
             sentence);
    skep_buffer_done(&reply->body);
    skep_buffer_append_text(&reply->body, text);
    reply->content_type = NULL;
    reply->status = status;
}

/* Decides between 200, 206 and 416 for `size` bytes; false after 416, else *ret_first and *ret_size say what to send. */
static bool choose_range(const struct skep_http_exchange *exchange, uint64_t size,
                         struct skep_http_reply *reply, uint64_t *ret_first, uint64_t *ret_size)
{
    *ret_first = 0;
    *ret_size = size;
    if (!exchange->ranged) {
        reply->status = 200;
        return true;
    }
    reply->has_range = true;
    reply->range_total = size;
    if (exchange->range_first >= size) {
        char sentence[160];
        snprintf(sentence, sizeof sentence, "the range starts at byte %llu and there are %llu",
                 (unsigned long long)exchange->range_first, (unsigned long long)size);
        skep_http_reply_error(reply, 416, "argument", sentence);
        return false;
    }
    reply->status = 206;
    reply->range_first = exchange->range_first;
    reply->range_last = exchange->range_last < size ? exchange->range_last : size - 1;
    *ret_first = reply->range_first;
    *ret_size = reply->range_last - reply->range_first + 1;
    return true;
}

void skep_http_reply_ranged(const struct skep_http_exchange *exchange, const void *data,
                            size_t size, struct skep_http_reply *reply)
{
    uint64_t first;
    uint64_t count;
    reply->content_type = "application/octet-stream";
    if (choose_range(exchange, size, reply, &first, &count)) {
        skep_buffer_append(&reply->body, (const uint8_t *)data + first, (size_t)count);
    }
}

int skep_http_reply_file(const struct skep_http_exchange *exchange, const char *path,
                         struct skep_http_reply *reply, struct skep_error *err)
{
    struct stat info;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0 || fstat(file, &info) != 0) {
        int number = errno;
        if (file >= 0) {
            close(file);
        }
        return skep_error_set(err, skep_err_from_errno(number), "cannot read %s: %s", path,
                              strerror(number));
    }
    reply->content_type = "application/octet-stream";
    uint64_t first;
    uint64_t count;
    if (!choose_range(exchange, (uint64_t)info.st_size, reply, &first, &count)) {
        close(file);
        return 0;
    }
    reply->has_file = true;
    reply->file = file;
    reply->file_first = first;
    reply->file_size = count;
    return 0;
}
