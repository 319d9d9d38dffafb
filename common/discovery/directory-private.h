/* For the files of this folder only, in C and C++: what an implementation of the directory provides. Its struct begins with a
 * struct skep_directory, so that one is a pointer to the other. */
#ifndef SKEP_DISCOVERY_DIRECTORY_PRIVATE_H
#define SKEP_DISCOVERY_DIRECTORY_PRIVATE_H

#include "common/discovery/directory.h"

struct skep_directory_ops {
    void (*announce)(struct skep_directory *directory, const struct skep_directory_key *key,
                     uint16_t port);
    void (*look_up)(struct skep_directory *directory, const struct skep_directory_key *key,
                    skep_directory_found found, void *user);
    size_t (*nodes)(const struct skep_directory *directory);
    void (*close)(struct skep_directory *directory);
};

struct skep_directory {
    const struct skep_directory_ops *ops;
};

#endif
