/* CUDA's and cuBLAS's functions over the emulated device. */
#include <assert.h>
#include <sys/mman.h>
#include <unistd.h>

#include <map>

#include "tests/gpu/emulated.h"
#include "tests/gpu/emulator-state.h"
#include "tests/gpu/emulator.h"

#define LINE 64u
#define ALL_MEMORY ((size_t)4 << 30)

struct region {
    char *pages;
    size_t pages_size; /* without the page behind, which nobody may touch */
    size_t size;
};

static std::map<void *, struct region> regions; /* by the address that was handed out */
static size_t memory_left = ALL_MEMORY;
static size_t calls;
static size_t calls_left = SIZE_MAX;
static int capability = 90;

/* ---- the device ---- */

bool skep_emulated_present(void)
{
    return calls_left > 0;
}

size_t skep_emulated_calls(void)
{
    return calls;
}

void skep_emulated_vanish(size_t nth)
{
    calls_left = nth;
}

void skep_emulated_memory(size_t size)
{
    memory_left = size;
}

void skep_emulated_capability(int claimed)
{
    capability = claimed;
}

static void protect(int protection)
{
    for (auto &entry : regions) {
        assert(mprotect(entry.second.pages, entry.second.pages_size, protection) == 0);
    }
}

void skep_emulated_unlock(void)
{
    protect(PROT_READ | PROT_WRITE);
}

void skep_emulated_lock(void)
{
    protect(PROT_NONE);
}

void skep_emulated_forget(void)
{
    for (auto &entry : regions) {
        munmap(entry.second.pages, entry.second.pages_size + (size_t)sysconf(_SC_PAGESIZE));
    }
    regions.clear();
    memory_left = ALL_MEMORY;
    calls = 0;
    calls_left = SIZE_MAX;
    capability = 90;
}

/* Counts a call, and says whether the device is still there. */
static cudaError_t answer(void)
{
    calls++;
    if (calls_left == 0) {
        return cudaErrorDevicesUnavailable;
    }
    calls_left -= calls_left != SIZE_MAX;
    return cudaSuccess;
}

static cublasStatus_t blas_answer(void)
{
    return answer() == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

/* ---- CUDA ---- */

const char *cudaGetErrorString(cudaError_t code)
{
    return code == cudaErrorMemoryAllocation ? "out of memory" : "the emulated device is gone";
}

const char *cudaGetErrorName(cudaError_t code)
{
    return code == cudaErrorMemoryAllocation ? "cudaErrorMemoryAllocation"
                                             : "cudaErrorDevicesUnavailable";
}

cudaError_t cudaGetLastError(void)
{
    return answer();
}

cudaError_t cudaSetDevice(int number)
{
    assert(number == 0);
    return answer();
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *ret_properties, int number)
{
    assert(number == 0);
    *ret_properties = {"emulated", capability / 10, capability % 10, 1};
    return answer();
}

/* What is asked for ends within a cache line of the page that nobody may touch. */
cudaError_t cudaMalloc(void **ret_memory, size_t size)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    cudaError_t code = answer();
    if (code != cudaSuccess || size > memory_left) {
        return code != cudaSuccess ? code : cudaErrorMemoryAllocation;
    }
    size_t lines = (size + LINE - 1) / LINE * LINE;
    size_t pages_size = (lines + page - 1) / page * page;
    void *pages = mmap(nullptr, pages_size + page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert(pages != MAP_FAILED);
    *ret_memory = (char *)pages + (pages_size - lines);
    regions[*ret_memory] = {(char *)pages, pages_size, size};
    memory_left -= size;
    return cudaSuccess;
}

cudaError_t cudaFree(void *memory)
{
    auto found = regions.find(memory);
    if (memory != nullptr) {
        assert(found != regions.end() && "freed what was never handed out, or twice");
        munmap(found->second.pages, found->second.pages_size + (size_t)sysconf(_SC_PAGESIZE));
        memory_left += found->second.size;
        regions.erase(found);
    }
    return answer();
}

/* Whether the bytes lie within one piece of the device's memory. */
static bool on_device(const void *at, size_t size)
{
    auto after = regions.upper_bound(const_cast<void *>(at));
    if (after == regions.begin()) {
        return false;
    }
    const auto &region = *--after;
    return (const char *)at + size <= (const char *)region.first + region.second.size;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t size, cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    (void)stream;
    cudaError_t code = answer();
    if (code == cudaSuccess && size > 0) {
        assert(on_device(to, size) == (kind == cudaMemcpyHostToDevice));
        assert(on_device(from, size) == (kind == cudaMemcpyDeviceToHost));
        skep_emulated_unlock();
        memcpy(to, from, size);
        skep_emulated_lock();
    }
    return code;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *ret_stream, unsigned flags)
{
    assert(flags == cudaStreamNonBlocking);
    *ret_stream = nullptr;
    return answer();
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    (void)stream;
    return answer();
}

cudaError_t cudaEventCreate(cudaEvent_t *ret_event)
{
    *ret_event = nullptr;
    return answer();
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    (void)event;
    (void)stream;
    return answer();
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    (void)event;
    return answer();
}

cudaError_t cudaEventElapsedTime(float *ret_ms, cudaEvent_t from, cudaEvent_t to)
{
    (void)from;
    (void)to;
    *ret_ms = 3;
    return answer();
}

/* ---- cuBLAS ---- */

const char *cublasGetStatusString(cublasStatus_t code)
{
    (void)code;
    return "the emulated device is gone";
}

const char *cublasGetStatusName(cublasStatus_t code)
{
    (void)code;
    return "CUBLAS_STATUS_EXECUTION_FAILED";
}

cublasStatus_t cublasCreate(cublasHandle_t *ret_handle)
{
    *ret_handle = nullptr;
    return blas_answer();
}

cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream)
{
    (void)handle;
    (void)stream;
    return blas_answer();
}

cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode)
{
    (void)handle;
    (void)mode;
    return blas_answer();
}

cublasStatus_t cublasSetAtomicsMode(cublasHandle_t handle, cublasAtomicsMode_t mode)
{
    (void)handle;
    (void)mode;
    return blas_answer();
}

cublasStatus_t cublasSgemm_64(cublasHandle_t handle, cublasOperation_t a_way,
                              cublasOperation_t b_way, int64_t m, int64_t n, int64_t k,
                              const float *alpha, const float *a, int64_t lda, const float *b,
                              int64_t ldb, const float *beta, float *c, int64_t ldc)
{
    (void)handle;
    cublasStatus_t code = blas_answer();
    if (code != CUBLAS_STATUS_SUCCESS) {
        return code;
    }
    assert(lda >= (a_way == CUBLAS_OP_N ? m : k) && ldb >= (b_way == CUBLAS_OP_N ? k : n));
    assert(ldc >= m);
    skep_emulated_unlock();
    for (int64_t j = 0; j < n; j++) {
        for (int64_t i = 0; i < m; i++) {
            double sum = 0;
            for (int64_t l = 0; l < k; l++) {
                double left = (double)(a_way == CUBLAS_OP_N ? a[l * lda + i] : a[i * lda + l]);
                double right = (double)(b_way == CUBLAS_OP_N ? b[j * ldb + l] : b[l * ldb + j]);
                sum += left * right;
            }
            float *to = &c[j * ldc + i];
            *to = (float)((double)*alpha * sum) + (*beta == 0 ? 0 : *beta * *to);
        }
    }
    skep_emulated_lock();
    return code;
}
