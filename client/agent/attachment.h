/*
 * The project a donor is attached to, as it is remembered in DIR/attached.json: {"project":ID or null, "bootstrap":TEXT, "paused":bool}.
 * The commands read it too, so that they need no daemon.
 */
#ifndef SKEP_CLIENT_AGENT_ATTACHMENT_H
#define SKEP_CLIENT_AGENT_ATTACHMENT_H

#include <stdbool.h>

#include "common/base/error.h"
#include "common/base/id.h"

struct skep_attachment {
    bool attached;
    bool paused;
    struct skep_project_id project;
    char *bootstrap; /* the caller frees; NULL: none */
};

/* What DIR/attached.json says; nothing attached if it is missing or unreadable. */
void skep_attachment_load(const char *dir, struct skep_attachment *ret_attachment);
/* Folder of a project below DIR; the caller frees. */
char *skep_attachment_folder(const char *dir, const struct skep_project_id *project);
/* Are these a project id and bootstrap addresses (NULL: none)? Checked before anything is given up. */
int skep_attachment_check(const char *project, const char *bootstrap, struct skep_error *err);

int skep_attachment_save(const char *dir, const struct skep_attachment *attachment,
                         struct skep_error *err);

#endif
