/* The smallest language model that has experts: what keepers and donors of unit tests hold. */
#ifndef SKEP_TESTS_LIB_TINY_MODEL_H
#define SKEP_TESTS_LIB_TINY_MODEL_H

#include "common/wire/manifest.h"

/* All defaults but the sizes: a trunk and 4 experts of 8 values a token. */
static inline void skep_test_tiny_manifest(struct skep_manifest *manifest)
{
    skep_manifest_defaults(manifest);
    manifest->model.dim = 8;
    manifest->model.hidden = 8;
    manifest->model.heads = 2;
    manifest->model.layers = 1;
    manifest->model.context = 8;
    manifest->model.prefix = 2;
    manifest->model.rows = 2;
    manifest->model.columns = 2;
}

#endif
