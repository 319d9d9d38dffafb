/* Operations on whole rows: biases, gathering and scattering for experts. One warp, one row (launch.cuh). */
#include "common/gpu/columns.cuh"
#include "common/gpu/kernels.cuh"
#include "common/gpu/launch.cuh"

__global__ static void rows_set_kernel(struct skep_rows rows, const float *bias, float *y)
{
    for (size_t i = warp(); i < rows.count; i += warps()) {
        for (size_t j = lane(); j < rows.dim; j += LANES) {
            y[i * rows.dim + j] = bias[j];
        }
    }
}

static void rows_set(struct skep_rows rows, const float *bias, float *y)
{
    LAUNCH_ROWS(rows.count, rows_set_kernel, rows, bias, y);
}

__global__ static void rows_add_kernel(struct skep_rows rows, const float *bias, float *y)
{
    for (size_t i = warp(); i < rows.count; i += warps()) {
        for (size_t j = lane(); j < rows.dim; j += LANES) {
            y[i * rows.dim + j] += bias[j];
        }
    }
}

static void rows_add(struct skep_rows rows, const float *bias, float *y)
{
    LAUNCH_ROWS(rows.count, rows_add_kernel, rows, bias, y);
}

__global__ static void rows_sum_kernel(struct skep_rows rows, const float *x, float *sum)
{
    column_sums(
        rows.count, rows.dim,
        [=](size_t i, size_t j, struct sums *sums) { sums->bias += x[i * rows.dim + j]; },
        [=](size_t j, struct sums sums) { sum[j] += sums.bias; });
}

static void rows_sum(struct skep_rows rows, const float *x, float *sum)
{
    if (rows.count > 0 && rows.dim > 0) {
        LAUNCH_GRID(column_grid(rows.dim), rows_sum_kernel, rows, x, sum);
    }
}

__global__ static void rows_gather_kernel(struct skep_rows rows, const float *x, float *y)
{
    for (size_t i = warp(); i < rows.count; i += warps()) {
        const float *from = x + row_of(rows, i) * rows.dim;
        for (size_t j = lane(); j < rows.dim; j += LANES) {
            y[i * rows.dim + j] = from[j];
        }
    }
}

static void rows_gather(struct skep_rows rows, const float *x, float *y)
{
    LAUNCH_ROWS(rows.count, rows_gather_kernel, rows, x, y);
}

__global__ static void rows_gather_add_kernel(struct skep_rows rows, const float *x, float *y)
{
    for (size_t i = warp(); i < rows.count; i += warps()) {
        const float *from = x + row_of(rows, i) * rows.dim;
        for (size_t j = lane(); j < rows.dim; j += LANES) {
            y[i * rows.dim + j] += from[j];
        }
    }
}

static void rows_gather_add(struct skep_rows rows, const float *x, float *y)
{
    LAUNCH_ROWS(rows.count, rows_gather_add_kernel, rows, x, y);
}

/*
 * Where an index repeats, the warp of its first place adds all rows that bear it, in their order, and the warps of the others do nothing. To
 * find them each warp reads the index, 32 places at a time: count^2 / 32 reads, which the cache serves; for the few thousand rows of
 * a batch that is less than moving the rows. Sorting would need memory and three more kernels.
 */
__global__ static void rows_scatter_add_kernel(struct skep_rows rows, const float *x, float *y)
{
    for (size_t i = warp(); i < rows.count; i += warps()) {
        size_t mine = row_of(rows, i);
        bool owner = true;
        for (size_t base = 0; base < rows.count && owner; base += LANES) {
            size_t here = base + lane();
            unsigned same =
                __ballot_sync(ALL_LANES, here < rows.count && row_of(rows, here) == mine);
            for (; same != 0 && owner; same &= same - 1) {
                size_t source = base + (size_t)__ffs((int)same) - 1;
                owner = source >= i;
                for (size_t j = lane(); j < rows.dim && owner; j += LANES) {
                    y[mine * rows.dim + j] += x[source * rows.dim + j];
                }
            }
        }
    }
}

/* Without an index there is nothing to look for. */
__global__ static void rows_scatter_add_straight_kernel(struct skep_rows rows, const float *x,
                                                        float *y)
{
    for (size_t i = warp(); i < rows.count; i += warps()) {
        for (size_t j = lane(); j < rows.dim; j += LANES) {
            y[i * rows.dim + j] += x[i * rows.dim + j];
        }
    }
}

static void rows_scatter_add(struct skep_rows rows, const float *x, float *y)
{
    if (rows.index == NULL) {
        LAUNCH_ROWS(rows.count, rows_scatter_add_straight_kernel, rows, x, y);
    } else {
        LAUNCH_ROWS(rows.count, rows_scatter_add_kernel, rows, x, y);
    }
}

__global__ static void rows_combine_kernel(struct skep_rows rows, const float *y,
                                           const float *weight, float *x)
{
    for (size_t i = warp(); i < rows.count; i += warps()) {
        float *to = x + row_of(rows, i) * rows.dim;
        for (size_t j = lane(); j < rows.dim; j += LANES) {
            to[j] += weight[i] * y[i * rows.dim + j];
        }
    }
}

static void rows_combine(struct skep_rows rows, const float *y, const float *weight, float *x)
{
    LAUNCH_ROWS(rows.count, rows_combine_kernel, rows, y, weight, x);
}

__global__ static void rows_combine_backward_kernel(struct skep_rows rows, const float *dx,
                                                    const float *y, const float *weight, float *dy,
                                                    float *dweight)
{
    for (size_t i = warp(); i < rows.count; i += warps()) {
        const float *from = dx + row_of(rows, i) * rows.dim;
        float dot = 0;
        for (size_t j = lane(); j < rows.dim; j += LANES) {
            dot += from[j] * y[i * rows.dim + j];
            dy[i * rows.dim + j] = weight[i] * from[j];
        }
        dot = warp_sum(dot);
        if (lane() == 0) {
            dweight[i] = dot;
        }
    }
}

static void rows_combine_backward(struct skep_rows rows, const float *dx, const float *y,
                                  const float *weight, float *dy, float *dweight)
{
    LAUNCH_ROWS(rows.count, rows_combine_backward_kernel, rows, dx, y, weight, dy, dweight);
}

__global__ static void matrix_scale_kernel(struct skep_rows rows, float beta, float *c,
                                           size_t c_stride)
{
    for (size_t i = warp(); i < rows.count; i += warps()) {
        for (size_t j = lane(); j < rows.dim; j += LANES) {
            float *value = &c[i * c_stride + j];
            *value = beta == 0 ? 0 : beta * *value;
        }
    }
}

void skep_cuda_matrix_scale(size_t rows, size_t columns, float beta, float *c, size_t c_stride)
{
    const struct skep_rows shape = {rows, columns, NULL};
    LAUNCH_ROWS(rows, matrix_scale_kernel, shape, beta, c, c_stride);
}

void skep_cuda_rows(struct skep_ops *ops)
{
    ops->rows_set = rows_set;
    ops->rows_add = rows_add;
    ops->rows_sum = rows_sum;
    ops->rows_gather = rows_gather;
    ops->rows_gather_add = rows_gather_add;
    ops->rows_scatter_add = rows_scatter_add;
    ops->rows_combine = rows_combine;
    ops->rows_combine_backward = rows_combine_backward;
}
