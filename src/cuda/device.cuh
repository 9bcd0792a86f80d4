/* SPDX-License-Identifier: MIT */
/*
 * The one header of a kernel file: CUDA and the wrappers around PTX under nvcc, the emulator of tests/emu and the wrappers' twins
 * under any other compiler. Kernel files include nothing else of CUDA, write no PTX, launch by dv_launch and keep shared memory
 * in DV_SHARED or dv_smem. Rules for authors: docs/ADDING_AN_OP.md.
 */
#ifndef SEQMIX_CUDA_DEVICE_CUH
#define SEQMIX_CUDA_DEVICE_CUH

#if defined(__CUDACC__)
#    include <cuda_bf16.h>
#    include <cuda_fp16.h>
#    include <cuda_runtime.h>
#    include <stdint.h>
#    if defined(__CUDA_ARCH__)
#        define DV_ARCH __CUDA_ARCH__
#    else
#        define DV_ARCH 0 /* the host's pass */
#    endif
#    define DV_DEV                  __device__ __forceinline__
#    define DV_MEMBER               __device__ __forceinline__ /* of a struct */
/* A shared array: DV_SHARED(float, row, [256]); */
#    define DV_SHARED(T, name, ...) __shared__ T name __VA_ARGS__
#else
#    include "dtype.h"
#    include "emu.h"
#    define DV_ARCH   EMU_ARCH
#    define DV_DEV    static inline
#    define DV_MEMBER inline
#    define DV_SHARED(T, name, ...)                                                                                    \
        typedef T name##_type __VA_ARGS__;                                                                             \
        static const char name##_key = 0;                                                                              \
        name##_type &name = *static_cast<name##_type *>(                                                               \
            emu::static_shared(sizeof(name##_type), alignof(name##_type), &name##_key, #name))
#endif

/* ---------------------------------------------------------------- 16-bit floats, as bits */

#if defined(__CUDACC__)
DV_DEV float dv_bf16_to_f32(uint16_t bits)
{
    return __uint_as_float((unsigned)bits << 16);
}
DV_DEV uint16_t dv_f32_to_bf16(float value)
{
    return __bfloat16_as_ushort(__float2bfloat16_rn(value));
}
/* Two in one word, `low` in its low half. */
DV_DEV uint32_t dv_pack_bf16(float low, float high)
{
    const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    return (uint32_t)__bfloat16_as_ushort(pair.x) | (uint32_t)__bfloat16_as_ushort(pair.y) << 16;
}
DV_DEV float dv_f16_to_f32(uint16_t bits)
{
    return __half2float(__ushort_as_half(bits));
}
DV_DEV uint16_t dv_f32_to_f16(float value)
{
    return __half_as_ushort(__float2half_rn(value));
}
#else
DV_DEV float dv_bf16_to_f32(uint16_t bits)
{
    return seqmix_bf16_to_f32(bits);
}
DV_DEV uint16_t dv_f32_to_bf16(float value)
{
    return seqmix_f32_to_bf16(value);
}
DV_DEV uint32_t dv_pack_bf16(float low, float high)
{
    return (uint32_t)seqmix_f32_to_bf16(low) | (uint32_t)seqmix_f32_to_bf16(high) << 16;
}
DV_DEV float dv_f16_to_f32(uint16_t bits)
{
    return seqmix_f16_to_f32(bits);
}
DV_DEV uint16_t dv_f32_to_f16(float value)
{
    return seqmix_f32_to_f16(value);
}
#endif

/* ---------------------------------------------------------------- dynamic shared memory */

/* Every thread takes the same pieces in the same order; each is checked by itself in the emulator. */
#if defined(__CUDACC__)
extern __shared__ __align__(1024) unsigned char dv_smem_bytes[];
struct dv_smem {
    unsigned used = 0;
    template <class T> DV_DEV T *take(int n, unsigned align = 16)
    {
        used = (used + align - 1) & ~(align - 1);
        T *piece = reinterpret_cast<T *>(dv_smem_bytes + used);
        used += (unsigned)n * (unsigned)sizeof(T);
        return piece;
    }
};
#else
struct dv_smem {
    size_t used = 0;
    template <class T> T *take(int n, unsigned align = 16, EMU_LOC)
    {
        return static_cast<T *>(emu::dynamic_shared((size_t)n * sizeof(T), align, &used, EMU_HERE));
    }
};
#endif

/* ---------------------------------------------------------------- 8- and 16-byte accesses */

#if defined(__CUDACC__)
template <class T> DV_DEV T dv_ldv(const T *at)
{
    return *at;
}
template <class T> DV_DEV void dv_stv(T *at, T value)
{
    *at = value;
}
#else
template <class T> __attribute__((noinline, no_sanitize("thread"))) T dv_ldv(const T *at, EMU_LOC)
{
    T value;
    emu::misaligned_unless(at, sizeof(T), EMU_HERE);
    emu::touch(at, sizeof(T), false, false, EMU_HERE);
    std::memcpy(&value, at, sizeof value);
    return value;
}
template <class T> __attribute__((noinline, no_sanitize("thread"))) void dv_stv(T *at, T value, EMU_LOC)
{
    emu::misaligned_unless(at, sizeof(T), EMU_HERE);
    emu::touch(at, sizeof(T), true, false, EMU_HERE);
    std::memcpy(at, &value, sizeof value);
}
#endif

/* ---------------------------------------------------------------- hints */

/* What the compiler knows of the value ends here: nothing computed from it before is kept for later. */
#if defined(__CUDACC__)
DV_DEV void dv_forget(float &value)
{
    asm volatile("" : "+f"(value));
}
DV_DEV void dv_forget(int &value)
{
    asm volatile("" : "+r"(value));
}
#else
DV_DEV void dv_forget(float &) {}
DV_DEV void dv_forget(int &) {}
#endif

/* ---------------------------------------------------------------- barriers of some warps */

/* n_threads: a multiple of 32. */
#if defined(__CUDACC__)
DV_DEV void dv_barrier(int id, int n_threads)
{
    asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(n_threads) : "memory");
}
#else
DV_DEV void dv_barrier(int id, int n_threads, EMU_LOC)
{
    emu::barrier(id, n_threads, EMU_HERE);
}
#endif

/* ---------------------------------------------------------------- cp.async (sm_80) */

/* 16 bytes to shared memory, of which `given` come from global memory and the rest are 0; there when waited for. */
#if defined(__CUDACC__)
DV_DEV unsigned dv_shared_address(const void *at)
{
    return (unsigned)__cvta_generic_to_shared(at);
}
DV_DEV void dv_cp_async16(void *to, const void *from, int given = 16)
{
#    if DV_ARCH >= 800
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(dv_shared_address(to)), "l"(from), "r"(given)
                 : "memory");
#    endif
}
DV_DEV void dv_cp_async_commit()
{
#    if DV_ARCH >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#    endif
}
template <int LEFT> DV_DEV void dv_cp_async_wait()
{
#    if DV_ARCH >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
#    endif
}
#else
DV_DEV void dv_cp_async16(void *to, const void *from, int given = 16, EMU_LOC)
{
    emu::copy_async(to, from, 16, given, EMU_HERE);
}
DV_DEV void dv_cp_async_commit()
{
    emu::copy_async_commit();
}
template <int LEFT> DV_DEV void dv_cp_async_wait()
{
    emu::copy_async_wait(LEFT);
}
#endif

/* ---------------------------------------------------------------- ldmatrix and mma.sync (sm_80) */

/* Four 8x8 matrices of 16 bits: lane l gives the address of row l % 8 of matrix l / 8. */
#if defined(__CUDACC__)
DV_DEV void dv_ldmatrix_x4(uint32_t (&r)[4], const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(dv_shared_address(row))
                 : "memory");
}
DV_DEV void dv_ldmatrix_x4_trans(uint32_t (&r)[4], const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(dv_shared_address(row))
                 : "memory");
}
#    if DV_ARCH >= 800
#        define DV_MMA(shape_and_types)                                                                                \
            asm volatile("mma.sync.aligned." shape_and_types " {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"     \
                         : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                                              \
                         : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))
#    else
#        define DV_MMA(shape_and_types) ((void)d, (void)a, (void)b)
#    endif
DV_DEV void dv_mma_m16n8k16_bf16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2])
{
    DV_MMA("m16n8k16.row.col.f32.bf16.bf16.f32");
}
DV_DEV void dv_mma_m16n8k16_f16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2])
{
    DV_MMA("m16n8k16.row.col.f32.f16.f16.f32");
}
DV_DEV void dv_mma_m16n8k8_tf32(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2])
{
    DV_MMA("m16n8k8.row.col.f32.tf32.tf32.f32");
}
#else
DV_DEV void dv_ldmatrix_x4(uint32_t (&r)[4], const void *row, EMU_LOC)
{
    emu::ldmatrix_x4(r, row, false, EMU_HERE);
}
DV_DEV void dv_ldmatrix_x4_trans(uint32_t (&r)[4], const void *row, EMU_LOC)
{
    emu::ldmatrix_x4(r, row, true, EMU_HERE);
}
DV_DEV void dv_mma_m16n8k16_bf16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], EMU_LOC)
{
    emu::mma_m16n8k16(d, a, b, true, EMU_HERE);
}
DV_DEV void dv_mma_m16n8k16_f16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], EMU_LOC)
{
    emu::mma_m16n8k16(d, a, b, false, EMU_HERE);
}
DV_DEV void dv_mma_m16n8k8_tf32(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], EMU_LOC)
{
    emu::mma_m16n8k8_tf32(d, a, b, EMU_HERE);
}
#endif

/* ---------------------------------------------------------------- launch */

/* What a kernel needs before its first launch of more than 48 KiB of dynamic shared memory, on each device: leave to have `bytes`. */
template <class... K> static inline cudaError_t dv_allow_shared(int bytes, K... kernels)
{
    cudaError_t error = cudaSuccess;
    (void)(((error = cudaFuncSetAttribute(kernels, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes)) ==
            cudaSuccess) &&
           ...);
    return error;
}

/* A launch and nothing else, so that calls can be captured. */
template <class... P, class... A>
static inline cudaError_t dv_launch(void (*kernel)(P...), dim3 grid, dim3 block, size_t shared, cudaStream_t stream,
                                    A... args)
{
    cudaLaunchConfig_t launch = {};
    launch.gridDim = grid;
    launch.blockDim = block;
    launch.dynamicSmemBytes = shared;
    launch.stream = stream;
    return cudaLaunchKernelEx(&launch, kernel, static_cast<P>(args)...);
}

#endif
