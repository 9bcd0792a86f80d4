/* SPDX-License-Identifier: MIT */
/* The counters' own test: kernels whose counts are known by heart. Built like bugs.cu. */
#include <cstdio>

#include "counters.h"
#include "device.cuh"

constexpr unsigned ALL = 0xffffffffu;

/* Two blocks of two warps: each warp reads 128 bytes and writes 128. */
static __global__ void side_by_side(const float *x, float *y)
{
    const int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    y[i] = x[i];
}
/* One warp: every lane's float lies in a sector of its own; one lane's result goes out. */
static __global__ void strided(const float *x, float *y)
{
    const float sum = x[threadIdx.x * 8] + __shfl_xor_sync(ALL, 1.0f, 1);
    if (threadIdx.x == 0) y[0] = sum;
}
/* One warp: 16-byte reads, 512 bytes in all. */
static __global__ void wide(const float *x, float *y)
{
    const float4 v = dv_ldv(reinterpret_cast<const float4 *>(x) + threadIdx.x);
    y[threadIdx.x] = v.x;
}
/* One warp: a store without conflicts, a column whose 32 words lie in one bank, a word for all. */
static __global__ void banks(float *y)
{
    DV_SHARED(float, s, [32 * 32]);
    const int t = (int)threadIdx.x;
    for (int i = 0; i < 32; i++)
        s[i * 32 + t] = (float)i;
    __syncthreads();
    y[t] = s[t * 32] + s[5];
}
/* One warp: ldmatrix of rows 32 and of rows 48 bytes apart; a copy of 512 bytes; two products. */
static __global__ void matrices(const uint16_t *x, float *y)
{
    DV_SHARED(uint16_t, s, [32 * 24]);
    const int t = (int)threadIdx.x;
    for (int i = t; i < 32 * 24; i += 32)
        s[i] = 0;
    __syncwarp();
    dv_cp_async16(s + t * 8, x + t * 8);
    dv_cp_async_commit();
    dv_cp_async_wait<0>();
    __syncwarp();
    uint32_t a[4], b[4];
    float d[4] = {0, 0, 0, 0};
    dv_ldmatrix_x4(a, s + t % 16 * 16);
    dv_ldmatrix_x4(b, s + t * 24);
    dv_mma_m16n8k16_bf16(d, a, {b[0], b[1]});
    dv_mma_m16n8k16_bf16(d, a, {b[2], b[3]});
    y[t] = d[0];
}
/* One warp whose lanes make 1 to 4 turns: requests of fewer and fewer lanes, then one of all. */
static __global__ void uneven(const float *x, float *y)
{
    float sum = 0;
    for (int i = 0; i <= (int)threadIdx.x % 4; i++)
        sum += expf(x[i * 32 + (int)threadIdx.x]);
    y[threadIdx.x] = fmaf(sum, 2.0f, 1.0f);
}

static int n_wrong, n_judged;

static void expect(const char *what, uint64_t got, uint64_t wanted)
{
    n_judged++;
    n_wrong += got != wanted;
    printf("%s %s: %llu, wanted %llu\n", got == wanted ? "ok  " : "MISS", what, (unsigned long long)got,
           (unsigned long long)wanted);
}

template <class... P, class... A> static emu::Counts counted(void (*k)(P...), int grid, int block, A... args)
{
    (void)dv_launch(k, dim3((unsigned)grid), dim3((unsigned)block), 0, nullptr, args...);
    (void)cudaDeviceSynchronize();
    if (*emu::report() != '\0') puts(emu::report());
    const std::vector<emu::LaunchCounts> launches = emu::take_counts();
    expect("launches", launches.size(), 1);
    return launches.empty() ? emu::Counts{} : launches[0].counts;
}

int main()
{
    emu::configure();
    emu::config.count = true;
    void *memory[2];
    for (void *&m : memory) {
        (void)cudaMalloc(&m, 4096);
        (void)cudaMemsetAsync(m, 0, 4096, nullptr);
    }
    const float *x = static_cast<const float *>(memory[0]);
    float *y = static_cast<float *>(memory[1]);

    emu::Counts c = counted(side_by_side, 2, 64, x, y);
    expect("side by side, requests", c.global_requests, 8);
    expect("side by side, sectors", c.sectors, 32);
    expect("side by side, bytes fetched", c.fetched, 512);
    expect("side by side, bytes stored", c.stored, 512);
    c = counted(strided, 1, 32, x, y);
    expect("strided, sectors", c.sectors, 33);
    expect("strided, sectors at best", c.ideal_sectors, 5);
    expect("strided, shuffles", c.shuffles, 1);
    c = counted(wide, 1, 32, x, y);
    expect("wide, requests", c.global_requests, 2);
    expect("wide, sectors", c.sectors, 20);
    c = counted(banks, 1, 32, y);
    expect("banks, requests", c.shared_requests, 34);
    expect("banks, wavefronts", c.wavefronts, 32 + 32 + 1);
    expect("banks, wavefronts at best", c.ideal_wavefronts, 32 + 1 + 1);
    expect("banks, barriers", c.barriers, 1);
    c = counted(matrices, 1, 32, reinterpret_cast<const uint16_t *>(x), y);
    /* 24 stores of 64 bytes; the copy 4; rows 32 bytes apart: 8 words of a bank in 2 phases, said twice by lanes 16 on;
       48 bytes apart: 8 rows begin in 8 different banks */
    expect("matrices, wavefronts", c.wavefronts, 24 + 4 + 8 + 4);
    expect("matrices, bytes fetched", c.fetched, 512);
    expect("matrices, mma", c.mma_16, 2);
    c = counted(uneven, 1, 32, x, y);
    expect("uneven, requests", c.global_requests, 5);
    expect("uneven, exp", c.exps, 8 * (1 + 2 + 3 + 4));
    expect("uneven, fmaf", c.fmas, 32);
    emu::config.sample = 1;
    c = counted(side_by_side, 8, 64, x, y);
    expect("one block of eight, sectors", c.sectors, 128);
    expect("one block of eight, bytes fetched", c.fetched, 2048);
    printf("%d counts judged, %d wrong\n", n_judged, n_wrong);
    return n_wrong != 0;
}
