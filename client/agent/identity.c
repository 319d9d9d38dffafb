#include "client/agent/identity.h"

#include <stdlib.h>
#include <string.h>

#include "common/sys/file.h"

#define PEM_LIMIT 16384u

static int make_key(const char *path, struct skep_key **ret_key, struct skep_error *err)
{
    struct skep_key *key = skep_key_new();
    char *pem = skep_key_to_pem(key);
    int rc = skep_file_write(path, 0600, pem, strlen(pem), err);
    free(pem);
    if (rc != 0) {
        skep_key_free(key);
        return rc;
    }
    *ret_key = key;
    return 0;
}

int skep_identity_load(const char *path, bool make, struct skep_key **ret_key, bool *ret_made,
                       struct skep_error *err)
{
    struct skep_buffer pem = {0};
    bool exists = skep_file_exists(path);
    int rc;
    if (!exists && make) {
        rc = make_key(path, ret_key, err);
    } else {
        rc = skep_file_read(path, PEM_LIMIT, &pem, err);
        if (rc == 0 && skep_key_from_pem((const char *)pem.data, pem.size, ret_key, err) != 0) {
            rc = skep_error_prefix(err, "%s", path);
        }
    }
    if (rc == 0 && ret_made != NULL) {
        *ret_made = !exists;
    }
    skep_buffer_done(&pem);
    return rc;
}
