#include <stdlib.h>

#include "common/base/alloc.h"
#include "common/crypto/hash.h"
#include "tests/bench/attack/cell.h"

struct cell_hearing {
    size_t count;
    struct court_case cases[LAB_DONORS]; /* number: the donor's */
    bool audited[LAB_DONORS];
};

bool cell_is_banned(const struct cell *cell, size_t d)
{
    return cell->audits && court_banned(&cell->court, &cell->lab.donors[d].id);
}

static struct skep_hash name_update(const struct cell *cell, size_t d)
{
    const uint64_t what[2] = {cell->lab.version, d};
    return skep_hash_of(what, sizeof what);
}

struct cell_hearing *cell_hear(struct cell *cell)
{
    struct cell_hearing *hearing = skep_alloc(1, sizeof *hearing);
    for (size_t d = 0; d < cell->donors; d++) {
        if (cell->bodies[d][0].tensors == NULL) {
            continue;
        }
        struct court_case *one = &hearing->cases[hearing->count];
        *one = (struct court_case){
            .donor = cell->lab.donors[d].id, .update = name_update(cell, d), .number = d};
        cell->lies[d] += cell->lying[d];
        if (court_admits(&cell->court, one, &hearing->audited[hearing->count])) {
            hearing->count++;
        } else {
            cell_drop_bodies(cell, cell->bodies[d]);
        }
    }
    return hearing;
}

void cell_note(struct cell_hearing *hearing, const struct cell_intake *trunk)
{
    for (size_t i = 0; i < hearing->count; i++) {
        for (size_t u = 0; u < trunk->count; u++) {
            if (trunk->donors[u] == hearing->cases[i].number) {
                const struct skep_merge_verdict *verdict = &trunk->report.inputs[u];
                hearing->cases[i].agreement_permille = verdict->agreement_permille;
                hearing->cases[i].copy = verdict->copy_of != SKEP_MERGE_NO_COPY;
            }
        }
    }
}

void cell_judge(struct cell *cell, struct cell_hearing *hearing)
{
    struct skep_error err = {0};
    if (court_seal(&cell->court, hearing->cases, hearing->audited, hearing->count, &err) != 0) {
        cell_die(&err);
    }
    free(hearing);
}
