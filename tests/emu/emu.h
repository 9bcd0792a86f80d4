/* SPDX-License-Identifier: MIT */
/*
 * CUDA on the CPU, as a kernel file sees it: src/cuda/device.cuh includes this instead of the CUDA headers where the compiler is
 * not nvcc. One fiber per CUDA thread; lanes of a warp meet for collectives; asynchronous copies land, and streams run, only
 * when somebody waits for them. tests/emu/README.md tells what is checked and what is not. C++17, GCC or Clang, x86-64; one
 * host thread.
 */
#ifndef SEQMIX_TESTS_EMU_EMU_H
#define SEQMIX_TESTS_EMU_EMU_H

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <tuple>
#include <type_traits>
#include <utility>

#define EMU_ARCH         800         /* what DV_ARCH is here */
#define EMU_SHARED_BYTES (163 << 10) /* of a block, as on 8.0 */
#define EMU_PROCESSORS   132         /* multiprocessors, as many as an H200 has: nothing here runs at the same time */

/* ---------------------------------------------------------------- the language */

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
/* __shared__ is not defined on purpose: kernels use DV_SHARED and dv_smem. */

struct uint3 {
    unsigned x, y, z;
};
struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c) {}
};
struct alignas(8) float2 {
    float x, y;
};
struct alignas(16) float4 {
    float x, y, z, w;
};
struct alignas(8) uint2 {
    unsigned x, y;
};
struct alignas(16) uint4 {
    unsigned x, y, z, w;
};
extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;

/* ---------------------------------------------------------------- the engine */

namespace emu
{

struct Loc {
    const char *file;
    int line;
};
/* The caller's place. Two plain default arguments: GCC would evaluate a braced one where it is declared. */
#define EMU_LOC  const char *emu_file = __builtin_FILE(), int emu_line = __builtin_LINE()
#define EMU_HERE (emu::Loc{emu_file, emu_line})

enum Order { FORWARD, REVERSE, RANDOM };

struct Config {
    Order order = FORWARD; /* of lanes, warps and blocks */
    uint64_t seed = 1;
    bool check = false; /* watch every access; only in builds whose kernels are instrumented */
    int tensor_bits =
        0;              /* 0: products and sums in f32. 24 (Ampere, Ada), 25 (Hopper on): as measured on tensor cores */
    bool drop = false;  /* launches are accepted and forgotten: what is left is the host's work */
    bool races = true;  /* watch for them; unspecified results may well have some */
    bool count = false; /* what launches cost (counters.h); only in builds whose kernels are instrumented */
    uint64_t sample = 0; /* at most so many blocks of a launch run, spread over it; 0: all. Results are then wrong */
    int processors = EMU_PROCESSORS, shared_bytes = EMU_SHARED_BYTES;
};
extern Config config;
/* from EMU_ORDER=fwd|rev|rand:SEED, EMU_CHECK=0|1, EMU_RACES=0|1, EMU_TC=24|25, EMU_LAUNCH=drop, EMU_SHARED=BYTES of a block */
void configure();

enum Op : uint8_t { RUNNING, SYNCWARP, SHFL, VOTE, MMA, LDMATRIX, BARRIER, EXITED };

int lane();
/* The last lane of `mask` to arrive runs fn over the arguments of all, which lie on the lanes' own stacks. */
typedef void (*Collective)(void **args, uint32_t mask);
void collective(Op op, uint32_t mask, void *arg, Collective fn, Loc loc);
void barrier(int id, int n_threads, Loc loc); /* n_threads < 0: the block */
void *static_shared(size_t bytes, size_t align, const void *key, const char *name);
void *dynamic_shared(size_t bytes, size_t align, size_t *offset, Loc loc);
void copy_async(void *to, const void *from, int bytes, int given, Loc loc);
void copy_async_commit();
void copy_async_wait(int left);
void ldmatrix_x4(uint32_t *out, const void *row, bool transposed, Loc loc);
void mma_m16n8k16(float *d, const uint32_t *a, const uint32_t *b, bool bf16, Loc loc);
void mma_m16n8k8_tf32(float *d, const uint32_t *a, const uint32_t *b, Loc loc);
/* An access that is not an instrumented load or store. */
void touch(const void *at, size_t bytes, bool write, bool atomic, Loc loc);
void misaligned_unless(const void *at, size_t align, Loc loc);

/* Calls of the mathematical library, seen where the kernels are instrumented. */
enum Math { MATH_EXP, MATH_ROOT, MATH_FMA, N_MATH };
extern uint64_t math_counts[N_MATH];
#if defined(EMU_WATCHED)
#    define expf(x)       (emu::math_counts[emu::MATH_EXP]++, expf(x))
#    define exp2f(x)      (emu::math_counts[emu::MATH_EXP]++, exp2f(x))
#    define expm1f(x)     (emu::math_counts[emu::MATH_EXP]++, expm1f(x))
#    define logf(x)       (emu::math_counts[emu::MATH_EXP]++, logf(x))
#    define log2f(x)      (emu::math_counts[emu::MATH_EXP]++, log2f(x))
#    define log1pf(x)     (emu::math_counts[emu::MATH_EXP]++, log1pf(x))
#    define sqrtf(x)      (emu::math_counts[emu::MATH_ROOT]++, sqrtf(x))
#    define fmaf(x, y, z) (emu::math_counts[emu::MATH_FMA]++, fmaf(x, y, z))
#endif

/* What a kernel is called with, on the heap: run calls it, drop frees it, list shows its arguments one after another. */
struct Arguments {
    void *at;
    size_t size;
    void (*run)(void *at), (*drop)(void *at);
    void (*list)(void *at, void (*see)(const void *argument, size_t bytes));
};
int launch(const void *kernel, dim3 grid, dim3 block, size_t shared, void *stream, Arguments args);
const char *report(); /* of the first failure since the last clear; "" = none */
void clear_report();

/* ---------------------------------------------------------------- collectives of one value a lane */

template <class T> struct Exchange {
    T in, out;
    int from;
};
template <class T> void exchange(void **args, uint32_t mask)
{
    for (uint32_t m = mask; m != 0; m &= m - 1) {
        Exchange<T> *me = static_cast<Exchange<T> *>(args[__builtin_ctz(m)]);
        if ((mask >> me->from & 1) != 0)
            me->out = static_cast<Exchange<T> *>(args[me->from])->in;
        else
            std::memset(&me->out, 0xff, sizeof(T)); /* undefined on a device: something that will be noticed */
    }
}
template <class T> T shuffle(unsigned mask, T value, int from, Loc loc)
{
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "what a shuffle moves");
    Exchange<T> x{value, value, from};
    collective(SHFL, mask, &x, exchange<T>, loc);
    return x.out;
}
struct Vote {
    bool in;
    unsigned out;
};
void vote(void **args, uint32_t mask);

} /* namespace emu */

static inline void __syncthreads(EMU_LOC)
{
    emu::barrier(0, -1, EMU_HERE);
}
static inline void __syncwarp(unsigned mask = 0xffffffffu, EMU_LOC)
{
    emu::collective(emu::SYNCWARP, mask, nullptr, nullptr, EMU_HERE);
}
template <class T> T __shfl_sync(unsigned mask, T value, int from, int width = 32, EMU_LOC)
{
    const int first = emu::lane() & ~(width - 1);
    return emu::shuffle(mask, value, first | (from & (width - 1)), EMU_HERE);
}
template <class T> T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32, EMU_LOC)
{
    const int me = emu::lane(), from = me ^ bits, first = me & ~(width - 1);
    return emu::shuffle(mask, value, from >= first + width ? me : from, EMU_HERE);
}
static inline unsigned __ballot_sync(unsigned mask, int predicate, EMU_LOC)
{
    emu::Vote v{predicate != 0, 0};
    emu::collective(emu::VOTE, mask, &v, emu::vote, EMU_HERE);
    return v.out;
}
static inline int __any_sync(unsigned mask, int predicate, EMU_LOC)
{
    return __ballot_sync(mask, predicate, emu_file, emu_line) != 0;
}
template <class T> __attribute__((noinline, no_sanitize("thread"))) T atomicAdd(T *at, T value, EMU_LOC)
{
    emu::touch(at, sizeof(T), true, true, EMU_HERE);
    T old;
    std::memcpy(&old, at, sizeof(T));
    const T sum = old + value;
    std::memcpy(at, &sum, sizeof(T));
    return old;
}

static inline float __uint_as_float(unsigned bits)
{
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}
static inline unsigned __float_as_uint(float value)
{
    unsigned bits;
    std::memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* ---------------------------------------------------------------- the runtime: as much of it as the library calls */

typedef int cudaError_t;
enum {
    cudaSuccess = 0,
    cudaErrorInvalidValue = 1,
    cudaErrorMemoryAllocation = 2,
    cudaErrorInvalidConfiguration = 9,
    cudaErrorInvalidDevice = 101,
    cudaErrorLaunchFailure = 719,
    cudaErrorStreamCaptureUnsupported = 900,
    cudaErrorStreamCaptureInvalidated = 901
};
enum cudaMemcpyKind { cudaMemcpyHostToDevice = 1, cudaMemcpyDeviceToHost = 2, cudaMemcpyDefault = 4 };
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };
enum cudaDeviceAttr {
    cudaDevAttrMultiProcessorCount = 16,
    cudaDevAttrComputeCapabilityMajor = 75,
    cudaDevAttrComputeCapabilityMinor = 76,
    cudaDevAttrMaxSharedMemoryPerBlockOptin = 97
};
typedef struct emu_stream *cudaStream_t;
typedef struct emu_event *cudaEvent_t;
typedef struct emu_graph *cudaGraph_t;
typedef struct emu_graph_exec *cudaGraphExec_t;
enum cudaStreamCaptureMode { cudaStreamCaptureModeGlobal = 0 };
struct cudaLaunchConfig_t {
    dim3 gridDim, blockDim;
    size_t dynamicSmemBytes;
    cudaStream_t stream;
};

cudaError_t cudaGetDeviceCount(int *count);
cudaError_t cudaGetDevice(int *device);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute, int device);
cudaError_t cudaMalloc(void **at, size_t bytes);
cudaError_t cudaFree(void *at);
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream);
cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, cudaMemcpyKind kind);
cudaError_t cudaMemsetAsync(void *at, int value, size_t bytes, cudaStream_t stream);
cudaError_t cudaStreamCreate(cudaStream_t *stream);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags);
cudaError_t cudaEventCreate(cudaEvent_t *event);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t from, cudaEvent_t to);
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long flags);
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);
cudaError_t cudaDeviceSynchronize();
cudaError_t cudaGetLastError();
const char *cudaGetErrorString(cudaError_t error);

namespace emu
{
cudaError_t allow_shared(const void *kernel, int bytes);
}
extern "C" uint64_t emu_attributes_set(void); /* calls of cudaFuncSetAttribute: none belongs into an op's call */
extern "C" uint64_t emu_large_kernels(void);  /* kernels that were launched with more than 48 KiB of shared memory */
template <class K> cudaError_t cudaFuncSetAttribute(K *kernel, cudaFuncAttribute, int bytes)
{
    return emu::allow_shared(reinterpret_cast<const void *>(kernel), bytes);
}
template <class... P, class... A>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t *c, void (*kernel)(P...), A &&...a)
{
    struct Call {
        void (*kernel)(P...);
        std::tuple<std::decay_t<P>...> args;
    };
    emu::Arguments args = {};
    args.at = new Call{kernel, std::tuple<std::decay_t<P>...>(std::forward<A>(a)...)};
    args.size = sizeof(Call);
    args.run = [](void *p) { std::apply(static_cast<Call *>(p)->kernel, static_cast<Call *>(p)->args); };
    args.drop = [](void *p) { delete static_cast<Call *>(p); };
    args.list = [](void *p, void (*see)(const void *, size_t)) {
        std::apply([see](const auto &...each) { (see(&each, sizeof each), ...); }, static_cast<Call *>(p)->args);
    };
    return emu::launch(reinterpret_cast<const void *>(kernel), c->gridDim, c->blockDim, c->dynamicSmemBytes, c->stream,
                       args);
}

#endif
