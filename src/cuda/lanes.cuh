/* SPDX-License-Identifier: MIT */
/*
 * Element types of rows as template arguments, and eight neighbouring elements at a time: one access of 16 bytes in 16 bits, two
 * in f32, where pointers and strides allow it; element by element where they don't.
 */
#ifndef SEQMIX_CUDA_LANES_CUH
#define SEQMIX_CUDA_LANES_CUH

#include "rows.cuh"

struct as_bf16 {
    typedef uint16_t storage;
    static DV_MEMBER float up(uint16_t bits) { return dv_bf16_to_f32(bits); }
    static DV_MEMBER uint16_t down(float value) { return dv_f32_to_bf16(value); }
};

struct as_f16 {
    typedef uint16_t storage;
    static DV_MEMBER float up(uint16_t bits) { return dv_f16_to_f32(bits); }
    static DV_MEMBER uint16_t down(float value) { return dv_f32_to_f16(value); }
};

struct as_f32 {
    typedef float storage;
    static DV_MEMBER float up(float value) { return value; }
    static DV_MEMBER float down(float value) { return value; }
};

/* Host: whether elements of t may be taken eight at a time along its last axis. */
static inline bool in_eights(const seqmix_tensor &t)
{
    if (t.rank == 0) return true;
    const int64_t bytes = t.dtype == SEQMIX_F32 ? 4 : 2;
    bool fits =
        reinterpret_cast<uintptr_t>(t.data) % 16 == 0 && t.stride[t.rank - 1] == 1 && t.shape[t.rank - 1] % 8 == 0;
    for (int axis = 0; axis < t.rank - 1; axis++)
        fits = fits && t.stride[axis] * bytes % 16 == 0;
    return fits;
}

template <class X> DV_DEV void load_eight(const uint16_t *at, float (&v)[8])
{
    const uint4 u = dv_ldv(reinterpret_cast<const uint4 *>(at));
    const unsigned words[4] = {u.x, u.y, u.z, u.w};
#pragma unroll
    for (int i = 0; i < 4; i++) {
        v[2 * i] = X::up((uint16_t)words[i]);
        v[2 * i + 1] = X::up((uint16_t)(words[i] >> 16));
    }
}

template <class X> DV_DEV void load_eight(const float *at, float (&v)[8])
{
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const float4 f = dv_ldv(reinterpret_cast<const float4 *>(at + 4 * i));
        v[4 * i] = f.x;
        v[4 * i + 1] = f.y;
        v[4 * i + 2] = f.z;
        v[4 * i + 3] = f.w;
    }
}

template <class X> DV_DEV void store_eight(uint16_t *at, const float (&v)[8])
{
    unsigned words[4];
#pragma unroll
    for (int i = 0; i < 4; i++)
        words[i] = (unsigned)X::down(v[2 * i]) | (unsigned)X::down(v[2 * i + 1]) << 16;
    dv_stv(reinterpret_cast<uint4 *>(at), uint4{words[0], words[1], words[2], words[3]});
}

template <class X> DV_DEV void store_eight(float *at, const float (&v)[8])
{
#pragma unroll
    for (int i = 0; i < 2; i++)
        dv_stv(reinterpret_cast<float4 *>(at + 4 * i), float4{v[4 * i], v[4 * i + 1], v[4 * i + 2], v[4 * i + 3]});
}

/* Four at a time: 8 bytes in 16 bits. */
template <class X> DV_DEV void load_four(const uint16_t *at, float (&v)[4])
{
    const float2 f = dv_ldv(reinterpret_cast<const float2 *>(at));
    const unsigned words[2] = {__float_as_uint(f.x), __float_as_uint(f.y)};
#pragma unroll
    for (int i = 0; i < 2; i++) {
        v[2 * i] = X::up((uint16_t)words[i]);
        v[2 * i + 1] = X::up((uint16_t)(words[i] >> 16));
    }
}

template <class X> DV_DEV void load_four(const float *at, float (&v)[4])
{
    const float4 f = dv_ldv(reinterpret_cast<const float4 *>(at));
    v[0] = f.x;
    v[1] = f.y;
    v[2] = f.z;
    v[3] = f.w;
}

template <class X> DV_DEV void store_four(uint16_t *at, const float (&v)[4])
{
    unsigned words[2];
#pragma unroll
    for (int i = 0; i < 2; i++)
        words[i] = (unsigned)X::down(v[2 * i]) | (unsigned)X::down(v[2 * i + 1]) << 16;
    dv_stv(reinterpret_cast<float2 *>(at), float2{__uint_as_float(words[0]), __uint_as_float(words[1])});
}

template <class X> DV_DEV void store_four(float *at, const float (&v)[4])
{
    dv_stv(reinterpret_cast<float4 *>(at), float4{v[0], v[1], v[2], v[3]});
}

template <class X> DV_DEV void load_unit(const typename X::storage *at, float (&v)[4])
{
    load_four<X>(at, v);
}
template <class X> DV_DEV void load_unit(const typename X::storage *at, float (&v)[8])
{
    load_eight<X>(at, v);
}
template <class X> DV_DEV void store_unit(typename X::storage *at, const float (&v)[4])
{
    store_four<X>(at, v);
}
template <class X> DV_DEV void store_unit(uint16_t *at, const float (&v)[8])
{
    store_eight<X>(at, v);
}

/* The first n <= 8 of eight elements of a row tensor; the others read as 0 and stay unwritten. */
template <class X> DV_DEV void load_some(const typename X::storage *at, int n, bool eights, float (&v)[8])
{
    if (eights && n >= 8) {
        load_eight<X>(at, v);
        return;
    }
#pragma unroll
    for (int i = 0; i < 8; i++)
        v[i] = i < n ? X::up(at[i]) : 0;
}

template <class X> DV_DEV void store_some(typename X::storage *at, int n, bool eights, const float (&v)[8])
{
    if (eights && n >= 8) {
        store_eight<X>(at, v);
        return;
    }
#pragma unroll
    for (int i = 0; i < 8; i++)
        if (i < n) at[i] = X::down(v[i]);
}

/* A row tensor's elements. */
template <class X> DV_DEV typename X::storage *elements(const seqmix_tensor &t)
{
    return static_cast<typename X::storage *>(t.data);
}

#endif
