/* Replies that handlers share: JSON, and the one form of every error. */
#ifndef SKEP_SERVER_API_REPLY_H
#define SKEP_SERVER_API_REPLY_H

#include "common/base/error.h"
#include "common/sys/http-server.h"
#include "common/wire/json.h"

/* The HTTP status that an error code is answered with. */
int skep_reply_status_of(enum skep_err code);
/* {"error": {"code", "message"}} with this status; "reason" too if an update was refused (base/refusal.h). */
void skep_reply_error(struct skep_http_reply *reply, int status, const struct skep_error *err);
/* The value as JSON; it is freed. */
void skep_reply_json(struct skep_http_reply *reply, int status, struct skep_json *take_root);
/* Text as it is. */
void skep_reply_text(struct skep_http_reply *reply, int status, const char *text);

#endif
