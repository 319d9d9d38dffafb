/*
 * Publishing a project: the task's data is split and cut, each named keeper is met and its record believed, the manifest is built with a
 * random seed and signed with the project's key, and both go to the keepers. The signed manifest is kept beside the key
 * (KEY.manifest), so that publishing again (after a keeper was away, say) repeats the same manifest; a project whose task or data
 * has changed is another project and needs another key.
 */
#ifndef SKEP_CLIENT_CLI_PUBLISH_H
#define SKEP_CLIENT_CLI_PUBLISH_H

#include <stddef.h>

#include "common/base/error.h"
#include "common/base/id.h"

struct skep_publish_options {
    const char *task_path;
    const char *key_path;
    const char *const *keepers; /* "host:port" */
    size_t keeper_count;
};

int skep_publish(const struct skep_publish_options *options, struct skep_project_id *ret_project,
                 struct skep_error *err);

#endif
