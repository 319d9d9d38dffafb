#include "common/model/gate.h"

#include <math.h>
#include <string.h>

#include "common/tensor/gemm.h"

static bool by_token(const struct skep_model *model)
{
    return model->config.route == SKEP_ROUTE_TOKEN;
}

/* Sequences or tokens: whatever has row scores of its own. */
static size_t row_choosers(const struct skep_model *model)
{
    return by_token(model) ? skep_model_tokens(model) : model->batch;
}

void skep_gate_prefix(struct skep_model *model)
{
    size_t d = model->config.dim;
    for (uint32_t b = 0; b < model->batch; b++) {
        skep_real *mean = model->prefix_mean + b * d;
        memset(mean, 0, d * sizeof *mean);
        for (uint32_t t = 0; t < model->prefix; t++) {
            skep_add(model->trunk.token + model->inputs[(size_t)b * model->length + t] * d, d,
                     mean);
            skep_add(model->trunk.position + t * d, d, mean);
        }
        for (size_t j = 0; j < d; j++) {
            mean[j] /= (skep_real)model->prefix;
        }
    }
}

void skep_gate_prefix_backward(struct skep_model *model)
{
    if (by_token(model)) {
        return;
    }
    size_t d = model->config.dim;
    for (uint32_t b = 0; b < model->batch; b++) {
        skep_real *gradient = model->dprefix + b * d;
        for (size_t j = 0; j < d; j++) {
            gradient[j] /= (skep_real)model->prefix;
        }
        for (uint32_t t = 0; t < model->prefix; t++) {
            uint8_t byte = model->inputs[(size_t)b * model->length + t];
            skep_add(gradient, d, model->trunk_gradient.token + byte * d);
            skep_add(gradient, d, model->trunk_gradient.position + t * d);
        }
    }
}

/*
 * A list of the best `limit` items seen, best first; among equals the one seen first stays before. `scores` and `items` are
 * borrowed arrays of `limit`.
 */
struct best {
    size_t limit;
    size_t count;
    skep_real *scores;
    uint32_t *items;
};

static void best_offer(struct best *best, skep_real score, uint32_t item)
{
    size_t at = best->count;
    if (at == best->limit) {
        if (!(score > best->scores[at - 1])) {
            return;
        }
        at--;
    } else {
        best->count++;
    }
    for (; at > 0 && score > best->scores[at - 1]; at--) {
        best->scores[at] = best->scores[at - 1];
        best->items[at] = best->items[at - 1];
    }
    best->scores[at] = score;
    best->items[at] = item;
}

/* Chooses rows into model->choice_rows in ascending order (so that ties go to the lower expert) and returns how many. */
static size_t choose_rows(struct skep_model *model, uint32_t layer, const skep_real *scores)
{
    const skep_real *balance = model->trunk.layers[layer].balance_row;
    const uint8_t *present = model->row_present + (size_t)layer * model->config.rows;
    struct best best = {.limit = model->config.rows_per_token,
                        .scores = model->choice_scores,
                        .items = model->choice_rows};
    for (uint32_t r = 0; r < model->config.rows; r++) {
        if (present[r] != 0) {
            best_offer(&best, scores[r] + balance[r], r);
        }
    }
    for (size_t i = 1; i < best.count; i++) {
        uint32_t row = best.items[i];
        size_t at = i;
        for (; at > 0 && best.items[at - 1] > row; at--) {
            best.items[at] = best.items[at - 1];
        }
        best.items[at] = row;
    }
    return best.count;
}

/* The best experts below model->choice_rows[0 .. rows - 1] for one token, into chosen [k]; returns how many. */
static size_t choose_experts(struct skep_model *model, uint32_t layer, size_t rows,
                             const skep_real *row_scores, const skep_real *column_scores,
                             uint32_t *chosen)
{
    const struct skep_model_layer *trunk = &model->trunk.layers[layer];
    uint32_t columns = model->config.columns;
    struct best best = {
        .limit = model->config.experts_per_token, .scores = model->choice_scores, .items = chosen};
    for (size_t i = 0; i < rows; i++) {
        uint32_t r = model->choice_rows[i];
        skep_real row = row_scores[r] + trunk->balance_row[r];
        for (uint32_t c = 0; c < columns; c++) {
            uint32_t expert = r * columns + c;
            if (skep_model_expert_at(model, layer, expert)->values != NULL) {
                best_offer(&best, row + column_scores[c] + trunk->balance_column[c], expert);
            }
        }
    }
    return best.count;
}

/* Softmax of the plain scores (no balance) over the chosen; the places left over get no expert and weight 0. */
static void weigh(const struct skep_model *model, const skep_real *row_scores,
                  const skep_real *column_scores, size_t count, uint32_t *chosen, skep_real *weight)
{
    uint32_t columns = model->config.columns;
    for (size_t i = 0; i < count; i++) {
        weight[i] = row_scores[chosen[i] / columns] + column_scores[chosen[i] % columns];
    }
    skep_real total = count == 0 ? 0 : skep_logsumexp(weight, count);
    for (size_t i = 0; i < model->config.experts_per_token; i++) {
        if (i < count) {
            weight[i] = (skep_real)exp((double)(weight[i] - total));
        } else {
            weight[i] = 0;
            chosen[i] = SKEP_NO_EXPERT;
        }
    }
}

static double mean_squared_logsumexp(const skep_real *scores, size_t rows, size_t columns)
{
    double sum = 0;
    for (size_t i = 0; i < rows; i++) {
        sum += pow((double)skep_logsumexp(scores + i * columns, columns), 2);
    }
    return sum / (double)rows;
}

static void note_present_rows(struct skep_model *model, uint32_t layer)
{
    uint32_t columns = model->config.columns;
    for (uint32_t r = 0; r < model->config.rows; r++) {
        uint8_t *present = &model->row_present[(size_t)layer * model->config.rows + r];
        *present = 0;
        for (uint32_t c = 0; c < columns; c++) {
            *present |= skep_model_expert_at(model, layer, r * columns + c)->values != NULL;
        }
    }
}

static void choose(struct skep_model *model, uint32_t layer)
{
    const struct skep_model_config *config = &model->config;
    struct skep_model_kept *kept = &model->kept[layer];
    size_t tokens = skep_model_tokens(model);
    size_t rows = 0;
    note_present_rows(model, layer);
    for (size_t n = 0; n < tokens; n++) {
        size_t chooser = by_token(model) ? n : n / model->length;
        const skep_real *row_scores = kept->row_scores + chooser * config->rows;
        const skep_real *column_scores = kept->column_scores + n * config->columns;
        if (by_token(model) || n % model->length == 0) {
            rows = choose_rows(model, layer, row_scores);
        }
        uint32_t *chosen = kept->chosen + n * config->experts_per_token;
        size_t count = choose_experts(model, layer, rows, row_scores, column_scores, chosen);
        weigh(model, row_scores, column_scores, count, chosen,
              kept->weight + n * config->experts_per_token);
    }
}

double skep_gate_forward(struct skep_model *model, uint32_t layer)
{
    const struct skep_model_config *config = &model->config;
    const struct skep_model_layer *trunk = &model->trunk.layers[layer];
    struct skep_model_kept *kept = &model->kept[layer];
    size_t d = config->dim;
    struct skep_rows tokens = {skep_model_tokens(model), d, NULL};
    skep_normalise(tokens, model->x, kept->mid_hat, kept->mid_scale);
    skep_affine_forward(tokens, kept->mid_hat, trunk->norm, kept->mid_norm);
    skep_cblas_linear_forward((struct skep_linear){tokens.count, d, config->columns},
                              kept->mid_norm, trunk->gate_column, 0, kept->column_scores);
    skep_cblas_linear_forward((struct skep_linear){row_choosers(model), d, config->rows},
                              by_token(model) ? kept->mid_norm : model->prefix_mean,
                              trunk->gate_row, 0, kept->row_scores);
    choose(model, layer);
    return mean_squared_logsumexp(kept->column_scores, tokens.count, config->columns) +
           mean_squared_logsumexp(kept->row_scores, row_choosers(model), config->rows);
}

/* Adds the gradient of weight * sum of logsumexp(scores)^2. */
static void add_z_gradient(const skep_real *scores, size_t rows, size_t columns, double weight,
                           skep_real *dscores)
{
    for (size_t i = 0; i < rows; i++) {
        const skep_real *from = scores + i * columns;
        double total = (double)skep_logsumexp(from, columns);
        for (size_t j = 0; j < columns; j++) {
            double probability = exp((double)from[j] - total);
            dscores[i * columns + j] += (skep_real)(weight * 2 * total * probability);
        }
    }
}

/* Through the softmax over the chosen, onto the scores of rows and columns. */
static void spread_weights(struct skep_model *model, const struct skep_model_kept *kept)
{
    const struct skep_model_config *config = &model->config;
    size_t tokens = skep_model_tokens(model);
    size_t k = config->experts_per_token;
    for (size_t n = 0; n < tokens; n++) {
        const uint32_t *chosen = kept->chosen + n * k;
        const skep_real *weight = kept->weight + n * k;
        const skep_real *dweight = model->dweight + n * k;
        size_t chooser = by_token(model) ? n : n / model->length;
        skep_real mean = 0;
        for (size_t i = 0; i < k && chosen[i] != SKEP_NO_EXPERT; i++) {
            mean += weight[i] * dweight[i];
        }
        for (size_t i = 0; i < k && chosen[i] != SKEP_NO_EXPERT; i++) {
            skep_real gradient = weight[i] * (dweight[i] - mean);
            model->dcolumn[n * config->columns + chosen[i] % config->columns] += gradient;
            model->drow[chooser * config->rows + chosen[i] / config->columns] += gradient;
        }
    }
}

void skep_gate_backward(struct skep_model *model, uint32_t layer, double z_loss)
{
    const struct skep_model_config *config = &model->config;
    const struct skep_model_layer *trunk = &model->trunk.layers[layer];
    const struct skep_model_layer *gradient = &model->trunk_gradient.layers[layer];
    const struct skep_model_kept *kept = &model->kept[layer];
    size_t d = config->dim;
    size_t choosers = row_choosers(model);
    struct skep_rows tokens = {skep_model_tokens(model), d, NULL};
    memset(model->dcolumn, 0, tokens.count * config->columns * sizeof *model->dcolumn);
    memset(model->drow, 0, choosers * config->rows * sizeof *model->drow);
    spread_weights(model, kept);
    if (z_loss != 0) {
        double z = z_loss / config->layers;
        add_z_gradient(kept->column_scores, tokens.count, config->columns, z / (double)tokens.count,
                       model->dcolumn);
        add_z_gradient(kept->row_scores, choosers, config->rows, z / (double)choosers, model->drow);
    }
    struct skep_linear column = {tokens.count, d, config->columns};
    skep_cblas_linear_weights(column, model->dcolumn, kept->mid_norm, 0, gradient->gate_column);
    skep_cblas_linear_inputs(column, model->dcolumn, trunk->gate_column, 0, model->dnarrow);
    struct skep_linear row = {choosers, d, config->rows};
    skep_cblas_linear_weights(row, model->drow,
                              by_token(model) ? kept->mid_norm : model->prefix_mean, 0,
                              gradient->gate_row);
    skep_cblas_linear_inputs(row, model->drow, trunk->gate_row, 1,
                             by_token(model) ? model->dnarrow : model->dprefix);
    skep_affine_backward(tokens, model->dnarrow, kept->mid_hat, trunk->norm, model->dhat,
                         gradient->norm);
}
