/* SPDX-License-Identifier: MIT */
/*
 * A few rows of the delta rule by 128 threads, for 32 columns of one value head: the state is read once into registers, 32
 * elements a thread, and written once. With S the decayed state, one round of sums a row:
 *   u = b (v - S^T k)    o = scale (S^T q + (k.q) u)    S <- S + k u^T
 * Threads lie along columns or along keys, as the pool does, so that each takes 16 bytes of f32. Sums over keys have one order in
 * both: four neighbours, then pairs of such fours 16, 8, 4, 2, 1 apart; bits don't depend on strides.
 */
#ifndef SEQMIX_CUDA_DELTANET_STEP_CUH
#define SEQMIX_CUDA_DELTANET_STEP_CUH

#include "deltanet_gates.cuh"

constexpr int STEP_DIM = 128, STEP_COLUMNS = 32, STEP_THREADS = 128, STEP_WARPS = STEP_THREADS / 32;

/* Which axis of the pool is contiguous and aligned; NEITHER goes along columns, element by element. */
enum { ALONG_NEITHER = 0, ALONG_COLUMNS = 1, ALONG_KEYS = 2 };

/* A row's vectors, and sums of warps. Two of them: rows take turns. */
struct step_row {
    float q[STEP_DIM], k[STEP_DIM], decay[STEP_DIM];
    float beta;
    float products[STEP_WARPS][3]; /* k.k, q.q, k.q */
    float sums[STEP_WARPS][2][STEP_COLUMNS];
};

struct step_unit {
    int thread, barrier;  /* of 128; its named barrier */
    int64_t head, column; /* value head, first column */
    int columns, dim;     /* of the tensors */
};

/* Key and column of element i of a thread's 32. */
template <int ALONG> DV_DEV int step_key(const step_unit &u, int i)
{
    const int lane = u.thread % 32, warp = u.thread / 32;
    return ALONG == ALONG_KEYS ? 4 * lane + i % 4 : 4 * (4 * (lane / 8) + warp + i / 16 * 16) + i / 4 % 4;
}
template <int ALONG> DV_DEV int step_column(const step_unit &u, int i)
{
    const int lane = u.thread % 32, warp = u.thread / 32;
    return ALONG == ALONG_KEYS ? 8 * warp + i / 4 : 4 * (lane % 8) + i % 4;
}

/* Four neighbours of a pool. */
DV_DEV void load_four(const seqmix_tensor &pool, int64_t offset, float *v)
{
    if (pool.dtype == SEQMIX_F32) {
        const float4 f = dv_ldv(reinterpret_cast<const float4 *>(static_cast<const float *>(pool.data) + offset));
        v[0] = f.x, v[1] = f.y, v[2] = f.z, v[3] = f.w;
        return;
    }
    const uint2 u = dv_ldv(reinterpret_cast<const uint2 *>(static_cast<const uint16_t *>(pool.data) + offset));
    const uint16_t bits[4] = {(uint16_t)u.x, (uint16_t)(u.x >> 16), (uint16_t)u.y, (uint16_t)(u.y >> 16)};
#pragma unroll
    for (int i = 0; i < 4; i++)
        v[i] = pool.dtype == SEQMIX_BF16 ? dv_bf16_to_f32(bits[i]) : dv_f16_to_f32(bits[i]);
}
DV_DEV void store_four(const seqmix_tensor &pool, int64_t offset, const float *v)
{
    if (pool.dtype == SEQMIX_F32) {
        dv_stv(reinterpret_cast<float4 *>(static_cast<float *>(pool.data) + offset), float4{v[0], v[1], v[2], v[3]});
        return;
    }
    uint32_t bits[4];
#pragma unroll
    for (int i = 0; i < 4; i++)
        bits[i] = pool.dtype == SEQMIX_BF16 ? dv_f32_to_bf16(v[i]) : dv_f32_to_f16(v[i]);
    dv_stv(reinterpret_cast<uint2 *>(static_cast<uint16_t *>(pool.data) + offset),
           uint2{bits[0] | bits[1] << 16, bits[2] | bits[3] << 16});
}

DV_DEV int64_t step_offset(const seqmix_deltanet_args &a, const step_unit &u, int32_t slot, int key, int column)
{
    return slot * a.state.stride[0] + u.head * a.state.stride[1] + key * a.state.stride[2] +
           (u.column + column) * a.state.stride[3];
}

template <int ALONG>
DV_DEV void step_load(const seqmix_deltanet_args &a, const step_unit &u, int32_t slot, float (&S)[32])
{
#pragma unroll
    for (int i = 0; i < 32; i += ALONG == ALONG_NEITHER ? 1 : 4) {
        const int key = step_key<ALONG>(u, i), column = step_column<ALONG>(u, i);
        const bool in = slot >= 0 && key < u.dim && column < u.columns;
        if (ALONG == ALONG_NEITHER) {
            S[i] = in ? get(a.state, step_offset(a, u, slot, key, column)) : 0;
        } else if (in) {
            load_four(a.state, step_offset(a, u, slot, key, column), S + i);
        } else {
            S[i] = S[i + 1] = S[i + 2] = S[i + 3] = 0;
        }
    }
}

template <int ALONG>
DV_DEV void step_store(const seqmix_deltanet_args &a, const step_unit &u, int32_t slot, const float (&S)[32])
{
    if (slot < 0) return;
#pragma unroll
    for (int i = 0; i < 32; i += ALONG == ALONG_NEITHER ? 1 : 4) {
        const int key = step_key<ALONG>(u, i), column = step_column<ALONG>(u, i);
        if (key >= u.dim || column >= u.columns) continue;
        if (ALONG == ALONG_NEITHER)
            put(a.state, step_offset(a, u, slot, key, column), S[i]);
        else
            store_four(a.state, step_offset(a, u, slot, key, column), S + i);
    }
}

/* The row's q, k, decays and beta, and the products of q and k by warps. */
DV_DEV void step_prepare(const seqmix_deltanet_args &a, const step_unit &u, int64_t t, step_row &row)
{
    const int64_t g = key_head_of(a, u.head);
    const int d = u.thread;
    const bool in = d < u.dim;
    const float q = in ? get(a.q, t * a.q.stride[0] + g * a.q.stride[1] + d) : 0;
    const float k = in ? get(a.k, t * a.k.stride[0] + g * a.k.stride[1] + d) : 0;
    row.q[d] = q;
    row.k[d] = k;
    if (a.gate.rank == 3 || d == 0) row.decay[d] = in ? gate_decay(a, t, u.head, d) : 0;
    if (d == 32) row.beta = beta_of(a, t, u.head);
    const float kk = sum_lanes(k * k), qq = sum_lanes(q * q), kq = sum_lanes(k * q);
    if (d % 32 != 0) return;
    row.products[d / 32][0] = kk;
    row.products[d / 32][1] = qq;
    row.products[d / 32][2] = kq;
}

DV_DEV float step_product(const step_row &row, int i)
{
    return (row.products[0][i] + row.products[1][i]) + (row.products[2][i] + row.products[3][i]);
}

/* Sums over keys of S times k and times q for the thread's columns, in all threads that have them. */
template <int ALONG, int N>
DV_DEV void step_sums(const step_unit &u, const float (&S)[32], const float (&k)[32 / N], const float (&q)[32 / N],
                      step_row &row, float (&seen)[N], float (&read)[N])
{
    constexpr int FOURS = ALONG == ALONG_KEYS ? 1 : 2; /* of keys, that a thread has of a column */
#pragma unroll
    for (int c = 0; c < N; c++) {
        float part[FOURS][2] = {};
#pragma unroll
        for (int i = 0; i < 4 * FOURS; i++) {
            const float s = S[ALONG == ALONG_KEYS ? 4 * c + i : 4 * i + c];
            part[i / 4][0] = fmaf(s, k[i], part[i / 4][0]);
            part[i / 4][1] = fmaf(s, q[i], part[i / 4][1]);
        }
        seen[c] = FOURS == 2 ? part[0][0] + part[FOURS - 1][0] : part[0][0];
        read[c] = FOURS == 2 ? part[0][1] + part[FOURS - 1][1] : part[0][1];
#pragma unroll
        for (int bits = 16; bits >= (ALONG == ALONG_KEYS ? 1 : 8); bits /= 2) {
            seen[c] += __shfl_xor_sync(ALL_LANES, seen[c], bits);
            read[c] += __shfl_xor_sync(ALL_LANES, read[c], bits);
        }
    }
    if (ALONG == ALONG_KEYS) return;
    const int lane = u.thread % 32, warp = u.thread / 32;
    for (int c = 0; c < N && lane < 8; c++) {
        row.sums[warp][0][4 * lane + c] = seen[c];
        row.sums[warp][1][4 * lane + c] = read[c];
    }
    dv_barrier(u.barrier, STEP_THREADS);
#pragma unroll
    for (int c = 0; c < N; c++) {
        const int column = 4 * (lane % 8) + c;
        seen[c] = (row.sums[0][0][column] + row.sums[2][0][column]) + (row.sums[1][0][column] + row.sums[3][0][column]);
        read[c] = (row.sums[0][1][column] + row.sums[2][1][column]) + (row.sums[1][1][column] + row.sums[3][1][column]);
    }
}

/* One row on the thread's part of the state. */
template <int ALONG>
DV_DEV void step_one(const seqmix_deltanet_args &a, const step_unit &u, int64_t t, step_row &row, float (&S)[32])
{
    constexpr int N = ALONG == ALONG_KEYS ? 8 : 4, KEYS = 32 / N; /* columns and keys of a thread */
    const int lane = u.thread % 32, warp = u.thread / 32;
    const float key = a.qk_l2norm != 0 ? 1 / sqrtf(step_product(row, 0) + a.eps) : 1;
    const float query = a.qk_l2norm != 0 ? 1 / sqrtf(step_product(row, 1) + a.eps) : 1;
    const float both = step_product(row, 2) * key * query, scale = delta_scale(a), beta = row.beta;
    float k[KEYS], q[KEYS], seen[N], read[N];
#pragma unroll
    for (int i = 0; i < KEYS; i++) {
        const int d = step_key<ALONG>(u, ALONG == ALONG_KEYS ? i : 4 * i);
        const float decay = row.decay[a.gate.rank == 3 ? d : 0];
        k[i] = row.k[d] * key;
        q[i] = row.q[d] * query;
#pragma unroll
        for (int c = 0; c < N; c++)
            S[ALONG == ALONG_KEYS ? 4 * c + i : 4 * i + c] *= decay;
    }
    step_sums<ALONG, N>(u, S, k, q, row, seen, read);
#pragma unroll
    for (int c = 0; c < N; c++) {
        const int column = step_column<ALONG>(u, ALONG == ALONG_KEYS ? 4 * c : c);
        const bool in = column < u.columns;
        const int64_t at = u.column + column;
        const float v = in ? get(a.v, t * a.v.stride[0] + u.head * a.v.stride[1] + at) : 0;
        const float write = beta * (v - seen[c]);
        if (in && (ALONG == ALONG_KEYS ? lane == c : warp == 0 && lane < 8))
            put(a.o, t * a.o.stride[0] + u.head * a.o.stride[1] + at, scale * fmaf(both, write, read[c]));
#pragma unroll
        for (int i = 0; i < KEYS; i++) {
            float &s = S[ALONG == ALONG_KEYS ? 4 * c + i : 4 * i + c];
            s = fmaf(k[i], write, s);
        }
    }
}

/* All rows of a sequence. Ends with a barrier of the unit. */
template <int ALONG>
DV_DEV void step_rows(const seqmix_deltanet_args &a, const seqmix_batch &batch, sequence s, const step_unit &u,
                      step_row (&rows)[2])
{
    if (s.begin == s.end) {
        const lane_of_state lane = {u.head * a.state.stride[1] + (u.column + u.thread) * a.state.stride[3],
                                    a.state.stride[2], u.thread < u.columns ? u.dim : 0};
        move_lane(a.state, lane, s);
        return;
    }
    float S[32];
    step_load<ALONG>(a, u, s.read, S);
    for (int64_t t = s.begin; t < s.end; t++) {
        step_row &row = rows[(t - s.begin) % 2];
        step_prepare(a, u, t, row);
        dv_barrier(u.barrier, STEP_THREADS);
        step_one<ALONG>(a, u, t, row, S);
        for (; s.ckpt < s.ckpt_end && batch.ckpt_row[s.ckpt] <= t + 1 - s.begin; s.ckpt++)
            if (batch.ckpt_row[s.ckpt] == t + 1 - s.begin)
                step_store<ALONG>(a, u, slot_or_none(batch.ckpt_slot[s.ckpt], a.state), S);
    }
    step_store<ALONG>(a, u, s.write, S);
    dv_barrier(u.barrier, STEP_THREADS);
}

/* Host: along which axis threads take four neighbours of the pool at a time. */
static inline int step_along(const seqmix_tensor &pool)
{
    if (pool.rank == 0) return ALONG_COLUMNS;
    const int64_t four = pool.dtype == SEQMIX_F32 ? 16 : 8, bytes = four / 4;
    if (reinterpret_cast<uintptr_t>(pool.data) % (size_t)four != 0) return ALONG_NEITHER;
    for (int axis = 3; axis >= 2; axis--) {
        bool fits = pool.stride[axis] == 1 && pool.shape[axis] % 4 == 0;
        for (int other = 0; other < 4; other++)
            fits = fits && (other == axis || pool.shape[other] <= 1 || pool.stride[other] * bytes % four == 0);
        if (fits) return axis == 3 ? ALONG_COLUMNS : ALONG_KEYS;
    }
    return ALONG_NEITHER;
}

#endif
