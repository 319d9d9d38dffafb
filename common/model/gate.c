#include "common/model/gate.h"

#include <math.h>
#include <string.h>

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
    if (by_token(model)) {
        return;
    }
    model->ops->fill(model->batch * d, 0, model->prefix_mean);
    for (size_t b = 0; b < model->batch; b++) {
        model->ops->rows_sum((struct skep_rows){model->prefix, d, NULL},
                             model->x + b * model->length * d, model->prefix_mean + b * d);
    }
    model->ops->scale(model->batch * d, 1 / (skep_real)model->prefix, model->prefix_mean);
}

void skep_gate_prefix_backward(struct skep_model *model)
{
    size_t d = model->config.dim;
    if (by_token(model)) {
        return;
    }
    model->ops->scale(model->batch * d, 1 / (skep_real)model->prefix, model->dprefix);
    for (size_t b = 0; b < model->batch; b++) {
        model->ops->rows_add((struct skep_rows){model->prefix, d, NULL}, model->dprefix + b * d,
                             model->dx + b * model->length * d);
    }
}

/* Of a few values on the host. */
static double logsumexp(const skep_real *values, size_t count)
{
    skep_real most = values[0];
    double sum = 0;
    for (size_t j = 1; j < count; j++) {
        most = values[j] > most ? values[j] : most;
    }
    for (size_t j = 0; j < count; j++) {
        sum += exp((double)(values[j] - most));
    }
    return (double)most + log(sum);
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
static size_t choose_rows(struct skep_model *model, const skep_real *scores)
{
    struct best best = {.limit = model->config.rows_per_token,
                        .scores = model->choice_scores,
                        .items = model->choice_rows};
    for (uint32_t r = 0; r < model->config.rows; r++) {
        if (model->row_present[r] != 0) {
            best_offer(&best, scores[r] + model->balance_row[r], r);
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
    uint32_t columns = model->config.columns;
    struct best best = {
        .limit = model->config.experts_per_token, .scores = model->choice_scores, .items = chosen};
    for (size_t i = 0; i < rows; i++) {
        uint32_t r = model->choice_rows[i];
        skep_real row = row_scores[r] + model->balance_row[r];
        for (uint32_t c = 0; c < columns; c++) {
            uint32_t expert = r * columns + c;
            if (skep_model_present(model, layer, expert)) {
                best_offer(&best, row + column_scores[c] + model->balance_column[c], expert);
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
    double total = count == 0 ? 0 : logsumexp(weight, count);
    for (size_t i = 0; i < model->config.experts_per_token; i++) {
        if (i < count) {
            weight[i] = (skep_real)exp((double)weight[i] - total);
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
        sum += pow(logsumexp(scores + i * columns, columns), 2);
    }
    return sum / (double)rows;
}

static void note_present_rows(struct skep_model *model, uint32_t layer)
{
    uint32_t columns = model->config.columns;
    for (uint32_t r = 0; r < model->config.rows; r++) {
        model->row_present[r] = 0;
        for (uint32_t c = 0; c < columns; c++) {
            model->row_present[r] |= skep_model_present(model, layer, (size_t)r * columns + c);
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
            rows = choose_rows(model, row_scores);
        }
        uint32_t *chosen = kept->chosen + n * config->experts_per_token;
        size_t count = choose_experts(model, layer, rows, row_scores, column_scores, chosen);
        weigh(model, row_scores, column_scores, count, chosen,
              kept->weight + n * config->experts_per_token);
    }
}

void skep_gate_weigh_again(struct skep_model *model, uint32_t layer)
{
    const struct skep_model_config *config = &model->config;
    struct skep_model_kept *kept = &model->kept[layer];
    size_t k = config->experts_per_token;
    for (size_t n = 0; n < skep_model_tokens(model); n++) {
        uint32_t *chosen = kept->chosen + n * k;
        size_t chooser = by_token(model) ? n : n / model->length;
        size_t count = 0;
        for (size_t i = 0; i < k; i++) {
            if (chosen[i] != SKEP_NO_EXPERT) {
                chosen[count++] = chosen[i];
            }
        }
        weigh(model, kept->row_scores + chooser * config->rows,
              kept->column_scores + n * config->columns, count, chosen, kept->weight + n * k);
    }
}

void skep_gate_again(struct skep_model *model, uint32_t layer)
{
    struct skep_model_inner *inner = &model->kept[layer].inner;
    struct skep_rows tokens = {skep_model_tokens(model), model->config.dim, NULL};
    model->ops->normalise(tokens, model->x, inner->mid_hat, inner->mid_scale);
    model->ops->affine(tokens, inner->mid_hat, model->trunk.layers[layer].norm, inner->mid_norm);
}

/* Scores of all choosers, and the balancing biases, to the host. */
static void fetch_scores(struct skep_model *model, uint32_t layer)
{
    const struct skep_ops *ops = model->ops;
    const struct skep_model_config *config = &model->config;
    const struct skep_model_layer *trunk = &model->trunk.layers[layer];
    struct skep_model_kept *kept = &model->kept[layer];
    struct skep_linear columns = {skep_model_tokens(model), config->dim, config->columns};
    struct skep_linear rows = {row_choosers(model), config->dim, config->rows};
    skep_linear_forward(ops, columns, kept->inner.mid_norm, trunk->gate_column, 0,
                        model->column_scores);
    skep_linear_forward(ops, rows, by_token(model) ? kept->inner.mid_norm : model->prefix_mean,
                        trunk->gate_row, 0, model->row_scores);
    ops->copy_out(kept->column_scores, model->column_scores,
                  columns.rows * columns.outputs * sizeof *kept->column_scores);
    ops->copy_out(kept->row_scores, model->row_scores,
                  rows.rows * rows.outputs * sizeof *kept->row_scores);
    ops->copy_out(model->balance_row, trunk->balance_row,
                  config->rows * sizeof *trunk->balance_row);
    ops->copy_out(model->balance_column, trunk->balance_column,
                  config->columns * sizeof *trunk->balance_column);
}

int skep_gate_forward(struct skep_model *model, uint32_t layer, double *ret_z,
                      struct skep_error *err)
{
    const struct skep_model_kept *kept = &model->kept[layer];
    skep_gate_again(model, layer);
    fetch_scores(model, layer);
    int rc = skep_model_stopped("forward", err);
    if (rc != SKEP_OK) {
        return rc; /* the scores are whatever was there before */
    }
    choose(model, layer);
    *ret_z = mean_squared_logsumexp(kept->column_scores, skep_model_tokens(model),
                                    model->config.columns) +
             mean_squared_logsumexp(kept->row_scores, row_choosers(model), model->config.rows);
    return SKEP_OK;
}

/* Adds the gradient of weight * sum of logsumexp(scores)^2. */
static void add_z_gradient(const skep_real *scores, size_t rows, size_t columns, double weight,
                           skep_real *dscores)
{
    for (size_t i = 0; i < rows; i++) {
        const skep_real *from = scores + i * columns;
        double total = logsumexp(from, columns);
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

/* model->drow and model->dcolumn on the host, and copies of them over the scores in the table's memory. */
static void score_gradients(struct skep_model *model, uint32_t layer, double z_loss)
{
    const struct skep_model_config *config = &model->config;
    const struct skep_model_kept *kept = &model->kept[layer];
    size_t tokens = skep_model_tokens(model);
    size_t choosers = row_choosers(model);
    size_t column_size = tokens * config->columns * sizeof *model->dcolumn;
    size_t row_size = choosers * config->rows * sizeof *model->drow;
    memset(model->dcolumn, 0, column_size);
    memset(model->drow, 0, row_size);
    spread_weights(model, kept);
    if (z_loss != 0) {
        double z = z_loss / config->layers;
        add_z_gradient(kept->column_scores, tokens, config->columns, z / (double)tokens,
                       model->dcolumn);
        add_z_gradient(kept->row_scores, choosers, config->rows, z / (double)choosers, model->drow);
    }
    model->ops->copy_in(model->column_scores, model->dcolumn, column_size);
    model->ops->copy_in(model->row_scores, model->drow, row_size);
}

void skep_gate_backward(struct skep_model *model, uint32_t layer, double z_loss)
{
    const struct skep_ops *ops = model->ops;
    const struct skep_model_layer *trunk = &model->trunk.layers[layer];
    const struct skep_model_layer *gradient = &model->trunk_gradient.layers[layer];
    const struct skep_model_inner *inner = &model->kept[layer].inner;
    size_t d = model->config.dim;
    struct skep_rows tokens = {skep_model_tokens(model), d, NULL};
    struct skep_linear column = {tokens.count, d, model->config.columns};
    struct skep_linear row = {row_choosers(model), d, model->config.rows};
    score_gradients(model, layer, z_loss);
    skep_linear_weights(ops, column, model->column_scores, inner->mid_norm, 0,
                        gradient->gate_column);
    skep_linear_inputs(ops, column, model->column_scores, trunk->gate_column, 0, model->dnarrow);
    skep_linear_weights(ops, row, model->row_scores,
                        by_token(model) ? inner->mid_norm : model->prefix_mean, 0,
                        gradient->gate_row);
    skep_linear_inputs(ops, row, model->row_scores, trunk->gate_row, 1,
                       by_token(model) ? model->dnarrow : model->dprefix);
    ops->affine_backward(tokens, model->dnarrow, inner->mid_hat, trunk->norm, model->dnarrow,
                         gradient->norm);
    ops->normalise_backward(tokens, model->dnarrow, inner->mid_hat, inner->mid_scale, model->dx);
}
