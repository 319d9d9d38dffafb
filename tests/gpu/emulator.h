/*
 * What common/gpu's CUDA code needs of CUDA, made of the CPU: so that kernels and the code around them are tested where no device is. To be
 * included before that code, which is then plain C++.
 *
 * A launch runs block after block; the threads of a block are fibers that take turns at barriers and shuffles, in an order that changes each
 * time. Whatever grid is asked for, small ones of changing shape are run, as any has to be right. A barrier that not all threads
 * reach stops the program. The device's memory cannot be touched but while a kernel or a copy runs: host code that
 * reads it crashes, as it would with a device. Each array ends where a page ends that nobody may touch.
 *
 * What it does not show: races within a warp that only parallel lanes would lose, speed, and cuBLAS, which is three loops here.
 */
#ifndef SKEP_TESTS_GPU_EMULATOR_H
#define SKEP_TESTS_GPU_EMULATOR_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <functional>

/* ---- seen from a kernel ---- */

#define LANES                                                                                      \
    8u /* of a warp: fewer than a device's 32, because each costs switches between fibers; the kernels take any power of 2 */

/* NOLINTBEGIN(bugprone-reserved-identifier): CUDA's own names */
#define __global__
#define __device__
#define __shared__ static /* blocks run one after another */

struct emulated_index {
    unsigned x;
};
extern struct emulated_index threadIdx;
extern struct emulated_index blockIdx;
extern struct emulated_index blockDim;
extern struct emulated_index gridDim;

void __syncthreads(void);
/* Lets the lanes of a warp show each other eight bytes: puts `mine` into this lane's place and returns all places, good until the next
 * call. */
const uint64_t *skep_emulated_exchange(uint64_t mine);

template <typename Number>
static inline Number __shfl_xor_sync(unsigned mask, Number value, unsigned apart)
{
    static_assert(sizeof value <= sizeof(uint64_t), "eight bytes at most");
    uint64_t bits = 0;
    (void)mask;
    memcpy(&bits, &value, sizeof value);
    memcpy(&value, &skep_emulated_exchange(bits)[(threadIdx.x % LANES) ^ apart], sizeof value);
    return value;
}

static inline unsigned __ballot_sync(unsigned mask, bool vote)
{
    unsigned votes = 0;
    (void)mask;
    const uint64_t *all = skep_emulated_exchange(vote);
    for (unsigned i = 0; i < LANES; i++) {
        votes |= (unsigned)all[i] << i;
    }
    return votes;
}

static inline int __ffs(int bits)
{
    return __builtin_ffs(bits);
}
/* NOLINTEND(bugprone-reserved-identifier) */

/* ---- seen from the host ---- */

void skep_emulate(const std::function<void()> &kernel);

enum cudaError_t {
    cudaSuccess = 0,
    cudaErrorMemoryAllocation = 2,
    cudaErrorDevicesUnavailable = 46
};
enum cudaMemcpyKind { cudaMemcpyHostToDevice = 1, cudaMemcpyDeviceToHost = 2 };
typedef struct emulated_stream *cudaStream_t;
typedef struct emulated_event *cudaEvent_t;
struct cudaDeviceProp {
    char name[256];
    int major;
    int minor;
    int multiProcessorCount;
};
#define cudaStreamNonBlocking 1u

const char *cudaGetErrorString(cudaError_t code);
const char *cudaGetErrorName(cudaError_t code);
cudaError_t cudaGetLastError(void);
cudaError_t cudaSetDevice(int number);
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *ret_properties, int number);
cudaError_t cudaMalloc(void **ret_memory, size_t size);
template <typename Value> static inline cudaError_t cudaMalloc(Value **ret_memory, size_t size)
{
    void *memory = nullptr;
    cudaError_t code = cudaMalloc(&memory, size);
    *ret_memory = (Value *)memory;
    return code;
}
cudaError_t cudaFree(void *memory);
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t size, cudaMemcpyKind kind,
                            cudaStream_t stream);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *ret_stream, unsigned flags);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaEventCreate(cudaEvent_t *ret_event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaEventElapsedTime(float *ret_ms, cudaEvent_t from, cudaEvent_t to);

/* ---- cuBLAS ---- */

enum cublasStatus_t {
    CUBLAS_STATUS_SUCCESS = 0,
    CUBLAS_STATUS_ALLOC_FAILED = 3,
    CUBLAS_STATUS_EXECUTION_FAILED = 13
};
enum cublasOperation_t { CUBLAS_OP_N, CUBLAS_OP_T };
enum cublasMath_t { CUBLAS_DEFAULT_MATH };
enum cublasAtomicsMode_t { CUBLAS_ATOMICS_NOT_ALLOWED };
typedef struct emulated_blas *cublasHandle_t;

const char *cublasGetStatusString(cublasStatus_t code);
const char *cublasGetStatusName(cublasStatus_t code);
cublasStatus_t cublasCreate(cublasHandle_t *ret_handle);
cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream);
cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode);
cublasStatus_t cublasSetAtomicsMode(cublasHandle_t handle, cublasAtomicsMode_t mode);
/* As BLAS has it: matrices column after column, C [m, n] <- alpha op(A) [m, k] op(B) [k, n] + beta C. */
cublasStatus_t cublasSgemm_64(cublasHandle_t handle, cublasOperation_t a_way,
                              cublasOperation_t b_way, int64_t m, int64_t n, int64_t k,
                              const float *alpha, const float *a, int64_t lda, const float *b,
                              int64_t ldb, const float *beta, float *c, int64_t ldc);

#endif
