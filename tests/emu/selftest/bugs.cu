/* SPDX-License-Identifier: MIT */
/*
 * Planted bugs: kernels and host code that are wrong in one way each, and a few that are right. Every bug must be reported by
 * its kind, or, where only the numbers can tell, give wrong numbers; nothing may be said of the right ones. Built with the
 * check on, run in every order: EMU_ORDER chooses it.
 */
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "device.cuh"

constexpr unsigned ALL = 0xffffffffu;
constexpr int N = 64;

/* ---------------------------------------------------------------- addresses */

static __global__ void shared_overrun(float *y)
{
    DV_SHARED(float, s, [N]);
    const int t = (int)threadIdx.x;
    s[t + 1] = (float)t;
    __syncthreads();
    y[t] = s[t != 0 ? t : 1];
}
static __global__ void global_overrun(const float *x, float *y)
{
    const int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    y[i % N] = x[i];
}
static __global__ void copy(const float *x, float *y)
{
    y[threadIdx.x] = x[threadIdx.x];
}
static __global__ void misaligned(const float *x, float *y)
{
    const float4 v = dv_ldv(reinterpret_cast<const float4 *>(x + 1));
    y[threadIdx.x] = v.x + v.w;
}
static __global__ void carved_too_much(float *y)
{
    dv_smem sm;
    float *a = sm.take<float>(N), *b = sm.take<float>(N);
    a[threadIdx.x] = b[threadIdx.x] = 1;
    y[threadIdx.x] = a[threadIdx.x];
}

static __global__ void too_many_arrays(float *y)
{
    DV_SHARED(float, a, [8192]);
    DV_SHARED(float, b, [8192]);
    a[threadIdx.x] = b[threadIdx.x] = 1;
    y[threadIdx.x] = a[threadIdx.x];
}

/* ---------------------------------------------------------------- order */

static __global__ void no_barrier(float *y)
{
    DV_SHARED(float, s, [N]);
    const int t = (int)threadIdx.x;
    s[t] = (float)t;
    y[t] = s[N - 1 - t];
}
static __global__ void overwritten_too_early(float *y)
{
    DV_SHARED(float, s, [N]);
    const int t = (int)threadIdx.x;
    s[t] = (float)t;
    __syncthreads();
    const float v = s[(t + 1) % N];
    s[t] = -1;
    y[t] = v;
}
static __global__ void no_syncwarp(float *y)
{
    DV_SHARED(float, s, [32]);
    const int t = (int)threadIdx.x;
    s[t] = 1;
    __syncwarp();
    for (int o = 16; o > 0; o /= 2)
        if (t < o) s[t] += s[t + o];
    __syncwarp();
    y[t] = s[0];
}
static __global__ void shuffle_is_no_fence(float *y)
{
    DV_SHARED(float, s, [32]);
    const int t = (int)threadIdx.x;
    s[t] = (float)t;
    const float v = __shfl_xor_sync(ALL, s[t], 1);
    y[t] = v + s[t ^ 2];
}
static __global__ void two_blocks_one_word(float *y)
{
    if (threadIdx.x == 0) y[0] += 1;
}
static __global__ void copy_not_waited(const float *x, float *y)
{
    DV_SHARED(float, s, [N * 4]);
    const int t = (int)threadIdx.x;
    dv_cp_async16(s + t * 4, x + t % 16 * 4);
    dv_cp_async_commit();
    __syncthreads();
    y[t] = s[t];
    dv_cp_async_wait<0>();
}
static __global__ void copy_waited_one_late(const float *x, float *y)
{
    DV_SHARED(float, s, [N * 8]);
    const int t = (int)threadIdx.x;
    for (int g = 0; g < 2; g++) {
        dv_cp_async16(s + g * N * 4 + t * 4, x + t % 16 * 4);
        dv_cp_async_commit();
    }
    dv_cp_async_wait<1>();
    __syncthreads();
    y[t] = s[t] + s[N * 4 + t];
    dv_cp_async_wait<0>();
}
static __global__ void copy_no_barrier(const float *x, float *y)
{
    DV_SHARED(float, s, [N * 4]);
    const int t = (int)threadIdx.x;
    dv_cp_async16(s + t * 4, x + t % 16 * 4);
    dv_cp_async_commit();
    dv_cp_async_wait<0>();
    y[t] = s[N - 1 - t];
}
static __global__ void copy_forgotten(const float *x, float *y)
{
    DV_SHARED(float, s, [N * 4]);
    const int t = (int)threadIdx.x;
    dv_cp_async16(s + t * 4, x + t % 16 * 4);
    dv_cp_async_commit();
    y[t] = 0;
}

/* ---------------------------------------------------------------- divergence */

static __global__ void barrier_in_a_branch(float *y)
{
    const int t = (int)threadIdx.x;
    if (t < 32) __syncthreads();
    y[t] = (float)t;
    __syncthreads();
}
static __global__ void two_barriers(float *y)
{
    const int t = (int)threadIdx.x;
    if (t % 2 != 0) {
        y[t] = 1;
        __syncthreads();
    } else {
        y[t] = 2;
        __syncthreads();
    }
}
static __global__ void barrier_in_uneven_loop(float *y)
{
    const int t = (int)threadIdx.x;
    for (int i = 0; i <= t % 3; i++) {
        y[t] = (float)i;
        __syncthreads();
    }
}
static __global__ void barriers_never_meet(float *y)
{
    const int t = (int)threadIdx.x;
    if (t < 32)
        dv_barrier(1, N);
    else
        dv_barrier(2, N);
    y[t] = (float)t;
}
static __global__ void shuffle_in_a_branch(float *y)
{
    const int t = (int)threadIdx.x;
    float v = (float)t;
    if (t % 32 < 16)
        v += __shfl_xor_sync(ALL, v, 1);
    else
        __syncwarp();
    y[t] = v;
}
static __global__ void shuffle_after_return(float *y)
{
    const int t = (int)threadIdx.x;
    if (t >= 40) return;
    y[t] = __shfl_xor_sync(ALL, (float)t, 16);
}
static __global__ void lane_not_in_mask(float *y)
{
    y[threadIdx.x] = __shfl_sync(0xffffu, 1.0f, 0);
}

/* ---------------------------------------------------------------- never written */

static __global__ void shared_unwritten(const float *x, float *y)
{
    DV_SHARED(float, s, [N]);
    const int t = (int)threadIdx.x;
    if (t < N - 4) s[t] = x[t];
    __syncthreads();
    float sum = 0;
    for (int i = 0; i < N; i++)
        sum += s[i];
    y[t] = sum;
}
static __global__ void unwritten_hidden(const float *x, float *y)
{
    DV_SHARED(float, s, [N]);
    const int t = (int)threadIdx.x;
    if (t < N - 4) s[t] = x[t];
    __syncthreads();
    y[t] = fmaxf(s[t], 0); /* the NaN vanishes */
}

/* ---------------------------------------------------------------- right ones */

static __global__ void twice(const float *x, float *y)
{
    y[threadIdx.x] = x[threadIdx.x] * 2;
}
static __global__ void atomic_sum(float *y)
{
    atomicAdd(y, 1.0f);
}
static __global__ void sum_by_tree(const float *x, float *y)
{
    DV_SHARED(float, s, [N]);
    const int t = (int)threadIdx.x;
    s[t] = x[t];
    for (int o = N / 2; o > 0; o /= 2) {
        __syncthreads();
        if (t < o) s[t] += s[t + o];
    }
    __syncthreads();
    float lanes = 1;
    for (int o = 16; o > 0; o /= 2)
        lanes += __shfl_xor_sync(ALL, lanes, o);
    y[t] = s[0] + lanes;
}

/* One warp: 16x16 times 16x8 through cp.async, ldmatrix and mma, a and b in bf16 or f16. */
static __global__ void product(const uint16_t *a, const uint16_t *b, float *y, int bf16)
{
    DV_SHARED(uint16_t, A, [16 * 16]);
    DV_SHARED(uint16_t, B, [16 * 16]);
    const int l = (int)threadIdx.x, g = l / 4, t = l % 4;
    dv_cp_async16(A + l * 8, a + l * 8);
    dv_cp_async16(B + l * 8, b + l * 8);
    dv_cp_async_commit();
    dv_cp_async_wait<0>();
    __syncwarp();
    uint32_t fa[4], fb[4];
    dv_ldmatrix_x4(fa, A + l % 16 * 16 + l / 16 * 8);
    dv_ldmatrix_x4_trans(fb, B + l % 16 * 16 + l / 16 * 8);
    for (int half = 0; half < 2; half++) {
        const uint32_t pair[2] = {fb[half * 2], fb[half * 2 + 1]};
        float d[4] = {0, 0, 0, 0};
        if (bf16 != 0)
            dv_mma_m16n8k16_bf16(d, fa, pair);
        else
            dv_mma_m16n8k16_f16(d, fa, pair);
        for (int e = 0; e < 4; e++)
            y[(g + e / 2 * 8) * 16 + half * 8 + t * 2 + e % 2] = d[e];
    }
}

/* The same in tf32, 16x8 times 8x8, fragments straight from memory. */
static __global__ void product_tf32(const float *a, const float *b, float *y)
{
    const int l = (int)threadIdx.x, g = l / 4, t = l % 4;
    uint32_t fa[4], fb[2];
    for (int e = 0; e < 4; e++)
        fa[e] = __float_as_uint(a[(g + e % 2 * 8) * 8 + t + e / 2 * 4]);
    for (int e = 0; e < 2; e++)
        fb[e] = __float_as_uint(b[(t + e * 4) * 8 + g]);
    float d[4] = {0, 0, 0, 0};
    dv_mma_m16n8k8_tf32(d, fa, fb);
    for (int e = 0; e < 4; e++)
        y[(g + e / 2 * 8) * 8 + t * 2 + e % 2] = d[e];
}

/* ---------------------------------------------------------------- the judge */

/* Whether a racing read finds an old value or none depends on the order. */
#define RACE "race|uninitialised read"

static int n_judged, n_missed;

static bool reported(const char *kinds)
{
    const std::string text = emu::report(), all = kinds;
    for (size_t from = 0, to; from <= all.size(); from = to + 1) {
        to = std::min(all.find('|', from), all.size());
        if (text.compare(0, 5 + to - from + 1, "emu: " + all.substr(from, to - from) + ":") == 0) return true;
    }
    return false;
}

static void judge(const char *name, const char *kind, bool numbers_right)
{
    const char *text = emu::report();
    bool ok;
    if (kind == nullptr)
        ok = *text == '\0' && numbers_right;
    else if (strcmp(kind, "wrong numbers") == 0)
        ok = *text == '\0' && !numbers_right;
    else
        ok = reported(kind);
    printf("%s %-24s %s\n", ok ? "ok  " : "MISS", name,
           *text != '\0'   ? text
           : numbers_right ? "right"
                           : "wrong numbers");
    n_judged++;
    n_missed += !ok;
    (void)cudaGetLastError();
    emu::clear_report();
}

static float *device(const std::vector<float> &values)
{
    void *at;
    (void)cudaMalloc(&at, values.size() * sizeof(float));
    (void)cudaMemcpy(at, values.data(), values.size() * sizeof(float), cudaMemcpyHostToDevice);
    return static_cast<float *>(at);
}

static std::vector<float> fetch(const float *from, int n)
{
    std::vector<float> values((size_t)n);
    (void)cudaMemcpy(values.data(), from, values.size() * sizeof(float), cudaMemcpyDeviceToHost);
    return values;
}

template <class... P, class... A>
static void plant(const char *kind, const char *name, void (*k)(P...), int grid, int block, size_t shared, A... args)
{
    (void)dv_launch(k, dim3((unsigned)grid), dim3((unsigned)block), shared, nullptr, args...);
    (void)cudaDeviceSynchronize();
    judge(name, kind, true);
}
#define PLANT(kind, kernel, grid, block, shared, ...) plant(kind, #kernel, kernel, grid, block, shared, __VA_ARGS__)

static void host_bugs(const float *x, float *y)
{
    const std::vector<float> want = fetch(x, N);
    std::vector<float> got(N, -1.0f);
    cudaStream_t s, u;
    (void)cudaStreamCreate(&s);
    (void)cudaStreamCreate(&u);
    (void)dv_launch(twice, dim3(1), dim3(N), 0, s, x, y);
    (void)cudaMemcpyAsync(got.data(), y, N * sizeof(float), cudaMemcpyDeviceToHost, s);
    judge("no_stream_sync", "wrong numbers", got[1] == 2 * want[1]);
    (void)cudaStreamSynchronize(s);
    judge("stream_sync", nullptr, got[1] == 2 * want[1]);

    for (int with_event = 0; with_event < 2; with_event++) {
        cudaEvent_t written;
        (void)cudaEventCreate(&written);
        (void)cudaMemsetAsync(y, 0, N * sizeof(float), nullptr);
        (void)cudaDeviceSynchronize();
        (void)dv_launch(copy, dim3(1), dim3(N), 0, s, x, y);
        (void)cudaEventRecord(written, s);
        if (with_event != 0) (void)cudaStreamWaitEvent(u, written, 0);
        (void)cudaMemcpyAsync(got.data(), y, N * sizeof(float), cudaMemcpyDeviceToHost, u);
        (void)cudaStreamSynchronize(u);
        judge(with_event != 0 ? "event_wait" : "no_event_wait", with_event != 0 ? nullptr : "wrong numbers",
              got[1] == want[1]);
        (void)cudaEventDestroy(written);
    }
    (void)cudaStreamDestroy(s);
    (void)cudaStreamDestroy(u);

    judge("shared_beyond_163_KiB", nullptr, dv_allow_shared(170000, copy) == cudaErrorInvalidValue);
    const cudaError_t unasked = dv_launch(copy, dim3(1), dim3(N), 50000, nullptr, x, y);
    judge("shared_beyond_48_KiB_unasked", nullptr, unasked == cudaErrorInvalidValue);
    const cudaError_t asked = dv_allow_shared(50000, copy);
    judge("shared_beyond_48_KiB_asked", nullptr,
          asked == cudaSuccess && dv_launch(copy, dim3(1), dim3(N), 50000, nullptr, x, y) == cudaSuccess);
}

static void products()
{
    std::vector<uint16_t> half[2];
    std::vector<float> a(256), b(256), bits(256);
    for (int i = 0; i < 256; i++) {
        a[(size_t)i] = (float)(i * 7 % 13 - 6);
        b[(size_t)i] = (float)(i * 5 % 11 - 5);
    }
    float *y = device(std::vector<float>(256)), *da = device(bits), *db = device(bits);
    for (int kind = 0; kind < 3; kind++) { /* f16, bf16, tf32 */
        const int n = kind < 2 ? 16 : 8, depth = n;
        bool right = true;
        for (int w = 0; w < 2; w++) {
            const std::vector<float> &v = w == 0 ? a : b;
            half[w].resize(256);
            for (size_t i = 0; i < 256; i++)
                half[w][i] = kind == 0 ? seqmix_f32_to_f16(v[i]) : seqmix_f32_to_bf16(v[i]);
            const void *from = kind < 2 ? static_cast<const void *>(half[w].data()) : v.data();
            (void)cudaMemcpy(w == 0 ? da : db, from, kind < 2 ? 512 : 1024, cudaMemcpyHostToDevice);
        }
        if (kind < 2)
            (void)dv_launch(product, dim3(1), dim3(32), 0, nullptr, reinterpret_cast<const uint16_t *>(da),
                            reinterpret_cast<const uint16_t *>(db), y, kind);
        else
            (void)dv_launch(product_tf32, dim3(1), dim3(32), 0, nullptr, static_cast<const float *>(da),
                            static_cast<const float *>(db), y);
        const std::vector<float> got = fetch(y, 16 * n);
        for (int r = 0; r < 16; r++)
            for (int c = 0; c < n; c++) {
                float want = 0;
                for (int k = 0; k < depth; k++)
                    want += a[(size_t)(r * depth + k)] * b[(size_t)(k * n + c)];
                right = right && got[(size_t)(r * n + c)] == want;
            }
        static const char *const names[] = {"mma_f16", "mma_bf16", "mma_tf32"};
        judge(names[kind], nullptr, right);
    }
    (void)cudaFree(y), (void)cudaFree(da), (void)cudaFree(db);
}

/* A graph replays on what memory holds then; what allocates or waits cannot be captured. */
static void graphs(const float *x, float *y)
{
    std::vector<float> other(N, 3.0f);
    float *from = device(fetch(x, N));
    cudaStream_t s;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    (void)cudaStreamCreate(&s);
    (void)cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal);
    (void)dv_launch(twice, dim3(1), dim3(N), 0, s, static_cast<const float *>(from), y);
    (void)cudaStreamEndCapture(s, &graph);
    (void)cudaGraphInstantiate(&exec, graph, 0);
    (void)cudaGraphDestroy(graph);
    (void)cudaMemcpy(from, other.data(), N * sizeof(float), cudaMemcpyHostToDevice);
    (void)cudaMemsetAsync(y, 0, N * sizeof(float), nullptr);
    const bool idle = fetch(y, N)[5] == 0;
    (void)cudaGraphLaunch(exec, s);
    (void)cudaStreamSynchronize(s);
    judge("graph_replay", nullptr, idle && fetch(y, N)[5] == 6);
    (void)cudaMemcpy(from, y, N * sizeof(float), cudaMemcpyDefault);
    (void)cudaGraphLaunch(exec, s);
    (void)cudaStreamSynchronize(s);
    judge("graph_again", nullptr, fetch(y, N)[5] == 12);
    (void)cudaGraphExecDestroy(exec);

    for (int way = 0; way < 3; way++) {
        void *at = nullptr;
        (void)cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal);
        (void)(way == 0 ? cudaMalloc(&at, 8) : way == 1 ? cudaStreamSynchronize(s) : cudaDeviceSynchronize());
        static const char *const names[] = {"captured_malloc", "captured_stream_sync", "captured_device_sync"};
        judge(names[way], nullptr, cudaStreamEndCapture(s, &graph) == cudaErrorStreamCaptureInvalidated);
    }
    (void)cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal);
    const cudaError_t e = dv_launch(copy, dim3(1), dim3(N), 0, nullptr, x, y);
    (void)cudaStreamEndCapture(s, &graph);
    judge("captured_beside", nullptr, e == cudaErrorStreamCaptureUnsupported);
    (void)cudaStreamDestroy(s);
    (void)cudaFree(from);
}

static void kernel_bugs(const float *x, float *y, const std::vector<float> &host)
{
    void *fresh;
    (void)cudaMalloc(&fresh, N * sizeof(float));
    PLANT("shared out of bounds", shared_overrun, 1, N, 0, y);
    PLANT("global out of bounds", global_overrun, 2, N, 0, x, y);
    PLANT("invalid address", copy, 1, N, 0, host.data(), y);
    PLANT("misaligned", misaligned, 1, 32, 0, x, y);
    PLANT("shared memory", carved_too_much, 1, N, 256, y);
    PLANT("shared memory", too_many_arrays, 1, N, 0, y);
    PLANT(RACE, no_barrier, 1, N, 0, y);
    PLANT(RACE, overwritten_too_early, 1, N, 0, y);
    PLANT(RACE, no_syncwarp, 1, 32, 0, y);
    PLANT(RACE, shuffle_is_no_fence, 1, 32, 0, y);
    PLANT("race between blocks", two_blocks_one_word, 8, 32, 0, y);
    PLANT(RACE, copy_not_waited, 1, N, 0, x, y);
    PLANT(RACE, copy_waited_one_late, 1, N, 0, x, y);
    PLANT(RACE, copy_no_barrier, 1, N, 0, x, y);
    PLANT("copy never waited for", copy_forgotten, 1, N, 0, x, y);
    PLANT("barrier divergence", barrier_in_a_branch, 1, N, 0, y);
    PLANT("barrier divergence", two_barriers, 1, N, 0, y);
    PLANT("barrier divergence", barrier_in_uneven_loop, 1, N, 0, y);
    PLANT("deadlock", barriers_never_meet, 1, N, 0, y);
    PLANT("warp divergence", shuffle_in_a_branch, 1, N, 0, y);
    PLANT("exited lane", shuffle_after_return, 1, N, 0, y);
    PLANT("bad mask", lane_not_in_mask, 1, 32, 0, y);
    PLANT("uninitialised read", shared_unwritten, 1, N, 0, x, y);
    PLANT("uninitialised read", unwritten_hidden, 1, N, 0, x, y);
    PLANT("uninitialised read", copy, 1, N, 0, static_cast<const float *>(fresh), y);
    (void)cudaFree(fresh);
}

int main()
{
    std::vector<float> host(N);
    for (int i = 0; i < N; i++)
        host[(size_t)i] = (float)(i + 1);
    float *x = device(host), *y = device(host);
    kernel_bugs(x, y, host);
    host_bugs(x, y);
    graphs(x, y);
    products();

    (void)cudaMemsetAsync(y, 0, N * sizeof(float), nullptr);
    (void)dv_launch(atomic_sum, dim3(8), dim3(N), 0, nullptr, y);
    judge("atomic_sum", nullptr, fetch(y, N)[0] == 512);
    (void)dv_launch(sum_by_tree, dim3(1), dim3(N), 0, nullptr, static_cast<const float *>(x), y);
    judge("sum_by_tree", nullptr, fetch(y, N)[5] == N * (N + 1) / 2 + 32);
    (void)cudaFree(x), (void)cudaFree(y);
    printf("%d judged, %d missed\n", n_judged, n_missed);
    return n_missed > 0;
}
