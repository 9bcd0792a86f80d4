/* SPDX-License-Identifier: MIT */
/*
 * Conformance of the wrappers of device.cuh: one tiny kernel each, whose results are printed as words. Built by nvcc for a GPU
 * and by the host's compiler against the emulator, it must print the same. Lines named *_rounding may differ in last bits where
 * EMU_TC does not model the device's tensor cores: scripts/gpu_check.sh only reports those.
 */
#include <cstdio>
#include <vector>

#include "device.cuh"

constexpr int LANES = 64, WORDS = 1024;

DV_DEV uint32_t noise(uint32_t i)
{
    i = (i ^ 61u ^ i >> 16) * 9u;
    i = (i ^ i >> 4) * 0x27d4eb2du;
    return i ^ i >> 15;
}

/* Moderate magnitudes, both signs, all bits in use. */
DV_DEV float number(uint32_t i)
{
    return ((float)(noise(i) & 0xffffffu) - 8388608.0f) / 1048576.0f;
}

static __global__ void bf16(uint32_t *y)
{
    const float v = number(threadIdx.x) * 1.0e-3f;
    y[threadIdx.x] = dv_f32_to_bf16(v);
    y[LANES + threadIdx.x] = __float_as_uint(dv_bf16_to_f32((uint16_t)(noise(threadIdx.x) & 0x7f7fu)));
    y[2 * LANES + threadIdx.x] = dv_pack_bf16(v, number(threadIdx.x + 99));
}
static __global__ void f16(uint32_t *y)
{
    const float v = number(threadIdx.x) * (threadIdx.x % 4 == 0 ? 1.0e-6f : 1.0f); /* subnormals too */
    y[threadIdx.x] = dv_f32_to_f16(v);
    y[LANES + threadIdx.x] = __float_as_uint(dv_f16_to_f32((uint16_t)(noise(threadIdx.x) & 0x7bffu)));
}
static __global__ void forget(uint32_t *y)
{
    float v = number(threadIdx.x);
    dv_forget(v);
    y[threadIdx.x] = __float_as_uint(v);
}
static __global__ void vectors(uint32_t *y)
{
    DV_SHARED(float4, s, [LANES]);
    const int t = (int)threadIdx.x;
    dv_stv(s + t, float4{number(t), number(t + 1), number(t + 2), number(t + 3)});
    __syncthreads();
    const float4 v = dv_ldv(s + (t * 7 + 3) % LANES);
    y[t] = __float_as_uint(v.x) ^ __float_as_uint(v.y) * 3 ^ __float_as_uint(v.z) * 5 ^ __float_as_uint(v.w) * 7;
}
static __global__ void pieces(uint32_t *y)
{
    dv_smem memory;
    uint16_t *a = memory.take<uint16_t>(LANES);
    uint32_t *b = memory.take<uint32_t>(LANES, 128);
    const int t = (int)threadIdx.x;
    a[t] = (uint16_t)noise(t);
    b[t] = noise(t + LANES);
    __syncthreads();
    y[t] = a[LANES - 1 - t] ^ b[LANES - 1 - t];
}
static __global__ void barrier(uint32_t *y)
{
    DV_SHARED(uint32_t, s, [LANES]);
    const int t = (int)threadIdx.x;
    s[t] = noise(t);
    dv_barrier(1 + t / 32, 32);
    y[t] = s[t ^ 5];
}
static __global__ void lanes(uint32_t *y)
{
    const uint32_t v = noise(threadIdx.x);
    y[threadIdx.x] = __shfl_xor_sync(0xffffffffu, v, 3) ^ __shfl_sync(0xffffffffu, v, (int)(threadIdx.x * 5 % 32)) * 3;
    y[LANES + threadIdx.x] = __ballot_sync(0xffffffffu, v % 3 == 0);
}
/* A whole copy, one of which 8 bytes are given, one of none; two groups. */
static __global__ void copies(const uint32_t *x, uint32_t *y)
{
    DV_SHARED(uint4, s, [2 * LANES]);
    const int t = (int)threadIdx.x;
    dv_cp_async16(s + t, x + 4 * t, t % 3 == 0 ? 16 : t % 3 == 1 ? 8 : 0);
    dv_cp_async_commit();
    dv_cp_async16(s + LANES + t, x + 4 * (LANES - 1 - t));
    dv_cp_async_commit();
    dv_cp_async_wait<1>();
    __syncthreads();
    const uint4 v = dv_ldv(s + (t + 1) % LANES);
    dv_cp_async_wait<0>();
    __syncthreads();
    const uint4 w = dv_ldv(s + LANES + (t + 1) % LANES);
    y[t] = v.x ^ v.y * 3 ^ v.z * 5 ^ v.w * 7;
    y[LANES + t] = w.x ^ w.y * 3 ^ w.z * 5 ^ w.w * 7;
}
template <bool TRANSPOSED> static __global__ void matrices(uint32_t *y)
{
    DV_SHARED(uint4, rows, [32]);
    uint16_t *s = reinterpret_cast<uint16_t *>(&rows[0]);
    const int t = (int)threadIdx.x;
    if (t >= 32) return;
    for (int i = 0; i < 8; i++)
        s[8 * t + i] = (uint16_t)noise(8 * t + i);
    __syncwarp();
    uint32_t r[4];
    if (TRANSPOSED)
        dv_ldmatrix_x4_trans(r, s + (t * 5 + 3) % 32 * 8);
    else
        dv_ldmatrix_x4(r, s + (t * 5 + 3) % 32 * 8);
    for (int i = 0; i < 4; i++)
        y[32 * i + t] = r[i];
}

DV_DEV uint32_t halves(uint32_t i, int kind, bool whole)
{
    const float a = whole ? (float)(noise(i) % 17) - 8 : number(i),
                b = whole ? (float)(noise(i + 7777) % 17) - 8 : number(i + 7777);
    if (kind == 0) return dv_pack_bf16(a, b);
    if (kind == 1) return (uint32_t)dv_f32_to_f16(a) | (uint32_t)dv_f32_to_f16(b) << 16;
    return __float_as_uint(a);
}
/* kind: bf16, f16, tf32. whole: integers, whose sums are exact in any order. */
template <int KIND, bool WHOLE> static __global__ void products(uint32_t *y)
{
    const uint32_t t = threadIdx.x;
    if (t >= 32) return;
    uint32_t a[4], b[2];
    float d[4];
    for (uint32_t i = 0; i < 4; i++) {
        a[i] = halves(t * 8 + i, KIND, WHOLE);
        d[i] = WHOLE ? (float)(noise(t * 4 + i) % 9) : number(t * 4 + i + 5555);
    }
    for (uint32_t i = 0; i < 2; i++)
        b[i] = halves(t * 8 + 4 + i, KIND, WHOLE);
    if (KIND == 0)
        dv_mma_m16n8k16_bf16(d, a, b);
    else if (KIND == 1)
        dv_mma_m16n8k16_f16(d, a, b);
    else
        dv_mma_m16n8k8_tf32(d, a, b);
    for (int i = 0; i < 4; i++)
        y[32 * i + t] = __float_as_uint(d[i]);
}

static int n_failed;

template <class... P, class... A> static void show(const char *name, int n, void (*k)(P...), uint32_t *y, A... args)
{
    std::vector<uint32_t> words((size_t)n);
    cudaError_t error = dv_launch(k, dim3(1), dim3(LANES), 2048, nullptr, args...);
    if (error == cudaSuccess) error = cudaMemcpy(words.data(), y, words.size() * 4, cudaMemcpyDeviceToHost);
    printf("%s", name);
    if (error != cudaSuccess) printf(" failed: %s", cudaGetErrorString(error));
    for (size_t i = 0; i < words.size() && error == cudaSuccess; i++)
        printf(" %08x", words[i]);
    printf("\n");
    n_failed += error != cudaSuccess;
}

/* 50000 bytes are refused until the kernel is given leave: three error codes. */
static void show_leave(uint32_t *y)
{
    const cudaError_t refused = dv_launch(forget, dim3(1), dim3(LANES), 50000, nullptr, y);
    (void)cudaGetLastError();
    const cudaError_t asked = dv_allow_shared(50000, forget);
    const cudaError_t taken = dv_launch(forget, dim3(1), dim3(LANES), 50000, nullptr, y);
    printf("leave %08x %08x %08x\n", (unsigned)refused, (unsigned)asked, (unsigned)taken);
    n_failed += asked != cudaSuccess || taken != cudaSuccess;
}

int main()
{
    void *memory = nullptr, *given = nullptr;
    std::vector<uint32_t> x(4 * LANES);
    for (size_t i = 0; i < x.size(); i++)
        x[i] = (uint32_t)i * 2654435761u;
    if (cudaMalloc(&memory, WORDS * 4) != cudaSuccess || cudaMalloc(&given, x.size() * 4) != cudaSuccess) {
        printf("no device\n");
        return 77;
    }
    (void)cudaMemcpy(given, x.data(), x.size() * 4, cudaMemcpyHostToDevice);
    uint32_t *y = static_cast<uint32_t *>(memory);
    show("bf16", 3 * LANES, bf16, y, y);
    show("f16", 2 * LANES, f16, y, y);
    show("forget", LANES, forget, y, y);
    show("vectors", LANES, vectors, y, y);
    show("pieces", LANES, pieces, y, y);
    show("barrier", LANES, barrier, y, y);
    show("lanes", 2 * LANES, lanes, y, y);
    show("copies", 2 * LANES, copies, y, static_cast<const uint32_t *>(given), y);
    show("ldmatrix", 128, matrices<false>, y, y);
    show("ldmatrix_trans", 128, matrices<true>, y, y);
    show("mma_bf16", 128, products<0, true>, y, y);
    show("mma_bf16_rounding", 128, products<0, false>, y, y);
    show("mma_f16", 128, products<1, true>, y, y);
    show("mma_f16_rounding", 128, products<1, false>, y, y);
    show("mma_tf32", 128, products<2, true>, y, y);
    show("mma_tf32_rounding", 128, products<2, false>, y, y);
    show_leave(y);
    return n_failed != 0;
}
