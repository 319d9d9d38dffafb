/*
 * The device: its memory, its queue of work, cuBLAS, and the first thing that went wrong.
 *
 * All work goes into one stream, so it is done in the order of the calls, while the host runs ahead. Each call's code is looked at; a kernel
 * that breaks is noticed by a later call, and the sentence then names that one: CUDA_LAUNCH_BLOCKING=1 makes it name the kernel.
 */
#ifndef SKEP_GPU_EMULATED
#include <cublas_v2.h>
#include <cuda_runtime.h>
#endif
#include <stdio.h>
#include <string.h>

#include "common/gpu/kernels.cuh"
#include "common/gpu/launch.cuh"
#include "common/gpu/plugin.h"

#define LEAST_CAPABILITY 75 /* 7.5, Turing: what the plug-in is compiled for at least */
#define BLOCK_THREADS 256u
#define BLOCKS_PER_UNIT 8u /* of 256 threads: what a multiprocessor holds at once */
/* A product is cut into pieces of this many multiplications, a few milliseconds on a slow card, to look at the stop flag between them. */
#define PIECE ((size_t)1 << 33)
/* The queue is held between these, in milliseconds of the device's time for one window of launches (see skep_cuda_launched). */
#define WINDOW_SHORT 2.0f
#define WINDOW_LONG 4.0f
#define WINDOW_MOST 256u

#define CHECK(call) check(call, #call, __FILE__, __LINE__)
#define CHECK_BLAS(call) check_blas(call, #call, __FILE__, __LINE__)

static struct {
    const struct skep_gpu_host *host;
    struct skep_error error; /* the first */
    char name[300];
    unsigned blocks_most;
    cudaStream_t stream;
    cublasHandle_t blas;
    double *parts; /* for sums of squares; on the device */
    /* Marks in the stream, one for each window of launches, in turn. */
    cudaEvent_t marks[3];
    unsigned mark_count;
    unsigned launched; /* since the last mark */
    unsigned window;
} device;

/* ---- errors ---- */

/* Keeps the first error. `call` is cut at its arguments, `file` at the folder it was compiled in. */
static void fail(enum skep_err code, const char *call, const char *file, int line, const char *what,
                 const char *name)
{
    if (device.error.code != SKEP_OK) {
        return;
    }
    const char *ours = strstr(file, "common/gpu/");
    device.error.code = code;
    snprintf(device.error.text, sizeof device.error.text,
             "the GPU %.100s failed: %.*s at %s:%d says \"%s\" (%s)", device.name,
             (int)strcspn(call, "("), call, ours != NULL ? ours : file, line, what, name);
}

static bool check(cudaError_t code, const char *call, const char *file, int line)
{
    if (code != cudaSuccess) {
        fail(code == cudaErrorMemoryAllocation ? SKEP_ERR_MEMORY : SKEP_ERR_IO, call, file, line,
             cudaGetErrorString(code), cudaGetErrorName(code));
    }
    return code == cudaSuccess;
}

static bool check_blas(cublasStatus_t code, const char *call, const char *file, int line)
{
    if (code != CUBLAS_STATUS_SUCCESS) {
        fail(code == CUBLAS_STATUS_ALLOC_FAILED ? SKEP_ERR_MEMORY : SKEP_ERR_IO, call, file, line,
             cublasGetStatusString(code), cublasGetStatusName(code));
    }
    return code == CUBLAS_STATUS_SUCCESS;
}

static bool failed(void)
{
    return device.error.code != SKEP_OK;
}

static int status(struct skep_error *err)
{
    if (!failed()) {
        CHECK(cudaStreamSynchronize(device.stream));
    }
    if (failed() && err != NULL) {
        *err = device.error;
    }
    return device.error.code;
}

/* ---- the queue ---- */

bool skep_cuda_works(void)
{
    return !failed();
}

bool skep_cuda_ready(void)
{
    return skep_cuda_works() && !device.host->stopped();
}

cudaStream_t skep_cuda_stream(void)
{
    return device.stream;
}

struct skep_grid skep_cuda_grid(size_t count)
{
    size_t blocks = (count + BLOCK_THREADS / LANES - 1) / (BLOCK_THREADS / LANES);
    struct skep_grid grid = {device.blocks_most, BLOCK_THREADS};
    if (blocks < grid.blocks) {
        grid.blocks = blocks > 0 ? (unsigned)blocks : 1;
    }
    return grid;
}

/*
 * Once the stop flag is set nothing more is launched, but what is in the queue still runs. So the host is at most two windows of launches
 * ahead: at each mark it waits for the mark before. How many launches make a window follows from how long the last one took.
 */
static void hold_back(void)
{
    unsigned now = device.mark_count++;
    device.launched = 0;
    CHECK(cudaEventRecord(device.marks[now % 3], device.stream));
    if (now < 1 || failed() || !CHECK(cudaEventSynchronize(device.marks[(now - 1) % 3]))) {
        return;
    }
    float took_ms = 0;
    if (now < 2 || !CHECK(cudaEventElapsedTime(&took_ms, device.marks[(now - 2) % 3],
                                               device.marks[(now - 1) % 3]))) {
        return;
    }
    if (took_ms < WINDOW_SHORT && device.window < WINDOW_MOST) {
        device.window *= 2;
    } else if (took_ms > WINDOW_LONG && device.window > 1) {
        device.window /= 2;
    }
}

void skep_cuda_launched(const char *what, const char *file, int line)
{
    if (check(cudaGetLastError(), what, file, line) && ++device.launched >= device.window) {
        hold_back();
    }
}

/* ---- memory ---- */

static void *memory_new(size_t size)
{
    void *memory = NULL;
    if (failed()) {
        return NULL;
    }
    cudaError_t code = cudaMalloc(&memory, size > 0 ? size : 1);
    if (code == cudaErrorMemoryAllocation) {
        cudaGetLastError(); /* no memory is an answer, not a failure: forgotten, so that the next launch does not report it */
        return NULL;
    }
    return check(code, "cudaMalloc", __FILE__, __LINE__) ? memory : NULL;
}

static void memory_free(void *memory)
{
    CHECK(cudaFree(memory));
}

static bool copy(void *to, const void *from, size_t size, enum cudaMemcpyKind kind)
{
    return !failed() && CHECK(cudaMemcpyAsync(to, from, size, kind, device.stream)) &&
           CHECK(cudaStreamSynchronize(device.stream));
}

/* Copies are made when stopped, too: what was trained so far is fetched then. */
static void copy_in(void *to, const void *from, size_t size)
{
    copy(to, from, size, cudaMemcpyHostToDevice);
}

static void copy_out(void *to, const void *from, size_t size)
{
    if (!copy(to, from, size, cudaMemcpyDeviceToHost)) {
        memset(to, 0,
               size); /* the caller may count or index with it before it asks for the status */
    }
}

/* ---- what needs the host ---- */

static double sum_squares(const float *x, size_t count)
{
    double parts[SKEP_CUDA_PARTS];
    double sum = 0;
    if (!skep_cuda_ready()) {
        return 0;
    }
    skep_cuda_sum_squares(x, count, device.parts);
    copy_out(parts, device.parts, sizeof parts);
    for (size_t i = 0; i < SKEP_CUDA_PARTS; i++) {
        sum += parts[i];
    }
    return sum;
}

/* cuBLAS counts columns first. Read that way a row-major matrix is its transpose, so C^T = B^T A^T is asked for. */
static void gemm(struct skep_gemm_size size, struct skep_matrix a, struct skep_matrix b, float beta,
                 float *c, size_t c_stride)
{
    const float one = 1;
    if (size.rows == 0 || size.columns == 0) {
        return;
    }
    if (size.inner == 0) {
        skep_cuda_matrix_scale(size.rows, size.columns, beta, c, c_stride);
        return;
    }
    size_t rows_most = PIECE / size.columns / size.inner + 1;
    for (size_t done = 0; done < size.rows && skep_cuda_ready(); done += rows_most) {
        size_t rows = size.rows - done < rows_most ? size.rows - done : rows_most;
        const float *a_rows = a.data + (a.transposed ? done : done * a.stride);
        CHECK_BLAS(cublasSgemm_64(device.blas, b.transposed ? CUBLAS_OP_T : CUBLAS_OP_N,
                                  a.transposed ? CUBLAS_OP_T : CUBLAS_OP_N, (int64_t)size.columns,
                                  (int64_t)rows, (int64_t)size.inner, &one, b.data,
                                  (int64_t)b.stride, a_rows, (int64_t)a.stride, &beta,
                                  c + done * c_stride, (int64_t)c_stride));
        skep_cuda_launched("cublasSgemm_64", __FILE__, __LINE__);
    }
}

/* ---- opening ---- */

static bool open_device(void)
{
    struct cudaDeviceProp properties;
    if (!CHECK(cudaSetDevice(0)) || !CHECK(cudaGetDeviceProperties(&properties, 0))) {
        return false;
    }
    snprintf(device.name, sizeof device.name, "cuda %s", properties.name);
    if (properties.major * 10 + properties.minor < LEAST_CAPABILITY) {
        device.error.code = SKEP_ERR_NOT_FOUND;
        snprintf(device.error.text, sizeof device.error.text,
                 "the GPU %.100s has compute capability %d.%d; Skep's kernels need 7.5 or more",
                 properties.name, properties.major, properties.minor);
        return false;
    }
    device.blocks_most = (unsigned)properties.multiProcessorCount * BLOCKS_PER_UNIT;
    device.window = 4;
    for (size_t i = 0; i < sizeof device.marks / sizeof device.marks[0]; i++) {
        CHECK(cudaEventCreate(&device.marks[i]));
    }
    CHECK(cudaStreamCreateWithFlags(&device.stream, cudaStreamNonBlocking));
    CHECK(cudaMalloc(&device.parts, SKEP_CUDA_PARTS * sizeof *device.parts));
    return !failed();
}

/* Full float32: no TF32, which keeps 10 of 23 bits; and no sums by atomics, whose order changes from run to run. */
static bool open_blas(void)
{
    return CHECK_BLAS(cublasCreate(&device.blas)) &&
           CHECK_BLAS(cublasSetStream(device.blas, device.stream)) &&
           CHECK_BLAS(cublasSetMathMode(device.blas, CUBLAS_DEFAULT_MATH)) &&
           CHECK_BLAS(cublasSetAtomicsMode(device.blas, CUBLAS_ATOMICS_NOT_ALLOWED));
}

/* A kernel of ours and a product, so that a device that cannot run them is refused now and not in a job's middle. */
static bool try_out(void)
{
    float *values = (float *)device.parts;
    const struct skep_matrix one = {values, 1, false};
    struct skep_ops ops;
    float result = 0;
    skep_cuda_values(&ops);
    ops.fill(2, 3.0f, values);
    gemm({1, 1, 1}, one, one, 0, values + 1, 1);
    copy_out(&result, values + 1, sizeof result);
    if (!failed() && !device.host->stopped() && result != 9) {
        fail(SKEP_ERR_NUMERIC, "gemm", __FILE__, __LINE__, "3 times 3 is not 9", "try_out");
    }
    return !failed();
}

static void fill_table(struct skep_ops *ops)
{
    ops->name = device.name;
    ops->on_host = false;
    ops->memory_new = memory_new;
    ops->memory_free = memory_free;
    ops->copy_in = copy_in;
    ops->copy_out = copy_out;
    ops->status = status;
    ops->gemm = gemm;
    ops->sum_squares = sum_squares;
    skep_cuda_values(ops);
    skep_cuda_rows(ops);
    skep_cuda_norms(ops);
    skep_cuda_activations(ops);
}

extern "C" __attribute__((visibility("default"))) int
skep_cuda_plugin(const struct skep_gpu_host *host, const struct skep_ops **ret_ops,
                 struct skep_error *err)
{
    static struct skep_gpu_host kept;
    static struct skep_ops ops;
    if (host->interface != SKEP_GPU_INTERFACE || host->ops_size != sizeof(struct skep_ops)) {
        err->code = SKEP_ERR_NOT_FOUND;
        snprintf(err->text, sizeof err->text,
                 "skep-cuda.so is not of this version of Skep (interface %u of %zu bytes, the "
                 "program has %u of %zu): install both from one build",
                 SKEP_GPU_INTERFACE, sizeof(struct skep_ops), host->interface, host->ops_size);
        return err->code;
    }
    if (device.host == NULL) {
        kept = *host;
        device.host = &kept;
        snprintf(device.name, sizeof device.name, "cuda");
        if (open_device() && open_blas()) {
            try_out();
        }
        fill_table(&ops);
    }
    if (failed()) {
        *err = device.error;
        return device.error.code;
    }
    *ret_ops = &ops;
    return 0;
}
