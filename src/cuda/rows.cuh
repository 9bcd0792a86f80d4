/* SPDX-License-Identifier: MIT */
/*
 * What kernels of every rung share: elements of tensors, the sequences of a batch, gate functions. A batch lies in device memory
 * and its contents are clamped, never trusted (seqmix.h, "Errors").
 */
#ifndef SEQMIX_CUDA_ROWS_CUH
#define SEQMIX_CUDA_ROWS_CUH

#include "device.cuh"
#include "kernels.h"

constexpr int MAX_DIM = 256, MAX_CONV = 16; /* the limits of every rung (seqmix.h) */
constexpr size_t LEAST_SHARED = 99 << 10;   /* what a block may have on any device of rung cuda-sm80 */
constexpr unsigned ALL_LANES = 0xffffffffu;

/* Blocks for n tasks; kernels walk the tasks with a stride of the grid. */
static inline dim3 blocks_for(int64_t n)
{
    return dim3((unsigned)(n < INT32_MAX ? n : INT32_MAX));
}

DV_DEV bool present(const seqmix_tensor &t)
{
    return t.rank != 0;
}

DV_DEV float get(const seqmix_tensor &t, int64_t offset)
{
    switch (t.dtype) {
    case SEQMIX_BF16:
        return dv_bf16_to_f32(static_cast<const uint16_t *>(t.data)[offset]);
    case SEQMIX_F16:
        return dv_f16_to_f32(static_cast<const uint16_t *>(t.data)[offset]);
    default:
        return static_cast<const float *>(t.data)[offset];
    }
}

DV_DEV float get_or(const seqmix_tensor &t, int64_t offset, float absent)
{
    return present(t) ? get(t, offset) : absent;
}

DV_DEV void put(const seqmix_tensor &t, int64_t offset, float value)
{
    switch (t.dtype) {
    case SEQMIX_BF16:
        static_cast<uint16_t *>(t.data)[offset] = dv_f32_to_bf16(value);
        break;
    case SEQMIX_F16:
        static_cast<uint16_t *>(t.data)[offset] = dv_f32_to_f16(value);
        break;
    default:
        static_cast<float *>(t.data)[offset] = value;
        break;
    }
}

/* Element offset of matrix `index` of a batch of matrices. */
DV_DEV int64_t matrix_offset(const seqmix_tensor &t, int64_t index)
{
    int64_t offset = 0;
    for (int axis = t.rank - 3; axis >= 0; axis--) {
        offset += index % t.shape[axis] * t.stride[axis];
        index /= t.shape[axis];
    }
    return offset;
}

/* ---------------------------------------------------------------- sequences */

struct sequence {
    int64_t begin, end;
    int32_t read, write;    /* slots; -1 = none */
    int32_t ckpt, ckpt_end; /* its range of checkpoints */
};

DV_DEV int32_t slot_or_none(int32_t slot, const seqmix_tensor &pool)
{
    return slot >= 0 && slot < pool.shape[0] ? slot : -1;
}

DV_DEV int32_t first_checkpoint(const seqmix_batch &batch, int32_t seq)
{
    int32_t low = 0, high = batch.n_checkpoints;
    while (low < high) {
        const int32_t middle = low + (high - low) / 2;
        if (batch.ckpt_seq[middle] < seq)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

DV_DEV int64_t clamp_row(int32_t row, int64_t rows)
{
    return row < 0 ? 0 : row < rows ? row : rows;
}

DV_DEV sequence sequence_of(const seqmix_batch &batch, int64_t rows, const seqmix_tensor &pool, int32_t i)
{
    sequence s = {0, rows, -1, -1, 0, 0};
    if (batch.row_begin != nullptr) {
        s.begin = clamp_row(batch.row_begin[i], rows);
        s.end = clamp_row(batch.row_begin[i + 1], rows);
    } else if (batch.n_seqs > 1) { /* _step: one row each */
        s.begin = i;
        s.end = i + 1;
    }
    if (s.end < s.begin) s.end = s.begin;
    if (s.end > s.begin + batch.max_rows) s.end = s.begin + batch.max_rows;
    if (!present(pool)) return s;
    s.read = slot_or_none(batch.read_slot != nullptr ? batch.read_slot[i] : i, pool);
    s.write = batch.write_slot != nullptr ? slot_or_none(batch.write_slot[i], pool) : s.read;
    if (batch.n_checkpoints > 0) {
        s.ckpt = first_checkpoint(batch, i);
        s.ckpt_end = first_checkpoint(batch, i + 1);
    }
    return s;
}

/* A lane of the state: n elements, `step` apart, of which the first lies `at` elements into its slot. */
struct lane_of_state {
    int64_t at, step;
    int n;
};

DV_DEV void load_lane(const seqmix_tensor &pool, const lane_of_state &lane, int32_t slot, float *state)
{
    for (int i = 0; i < lane.n; i++)
        state[i] = slot < 0 ? 0 : get(pool, slot * pool.stride[0] + lane.at + i * lane.step);
}

DV_DEV void store_lane(const seqmix_tensor &pool, const lane_of_state &lane, int32_t slot, const float *state)
{
    for (int i = 0; i < lane.n && slot >= 0; i++)
        put(pool, slot * pool.stride[0] + lane.at + i * lane.step, state[i]);
}

/* The state of an empty sequence moves bit for bit. */
DV_DEV void move_lane(const seqmix_tensor &pool, const lane_of_state &lane, const sequence &s)
{
    if (s.write < 0 || s.read == s.write) return;
    for (int i = 0; i < lane.n; i++) {
        const int64_t from = s.read * pool.stride[0] + lane.at + i * lane.step;
        const int64_t to = s.write * pool.stride[0] + lane.at + i * lane.step;
        if (pool.dtype == SEQMIX_F32) {
            uint32_t *bits = static_cast<uint32_t *>(pool.data);
            bits[to] = s.read < 0 ? 0 : bits[from];
        } else {
            uint16_t *bits = static_cast<uint16_t *>(pool.data);
            bits[to] = s.read < 0 ? (uint16_t)0 : bits[from];
        }
    }
}

/* Stores the lane in the slots of the checkpoints after `row` rows of the sequence. */
DV_DEV void store_checkpoints(const seqmix_batch &batch, const seqmix_tensor &pool, const lane_of_state &lane,
                              sequence &s, int64_t row, const float *state)
{
    for (; s.ckpt < s.ckpt_end && batch.ckpt_row[s.ckpt] <= row; s.ckpt++)
        if (batch.ckpt_row[s.ckpt] == row) store_lane(pool, lane, slot_or_none(batch.ckpt_slot[s.ckpt], pool), state);
}

/* ---------------------------------------------------------------- functions of a gate */

DV_DEV float softplus(float x)
{
    return x > 20 ? x : log1pf(expf(x));
}

/* exp is only taken of what is <= 0, so nothing overflows. */
DV_DEV float sigmoid(float x)
{
    const float e = expf(-fabsf(x));
    return x >= 0 ? 1 / (1 + e) : e / (1 + e);
}

DV_DEV float silu(float x)
{
    return x * sigmoid(x);
}

/* What act_rows makes of a and b (SEQMIX_ACT_ROWS_*). */
DV_DEV float activation(int32_t kind, float a, float b)
{
    switch (kind) {
    case SEQMIX_ACT_ROWS_SILU_MUL:
        return silu(a) * b;
    case SEQMIX_ACT_ROWS_RELU2:
        return a < 0 ? 0 : a * a;
    case SEQMIX_ACT_ROWS_SILU:
        return silu(a);
    default:
        return sigmoid(a) * b;
    }
}

/* exp of a log decay: positive counts as 0, NaN stays, and below -1e4 all is 0. */
DV_DEV float decay_of(float log_decay)
{
    const float g = !(log_decay > 0) ? log_decay : 0;
    return expf(g < -1e4f ? -1e4f : g);
}

/* The sum over a warp's lanes, in every lane, in a fixed order. */
DV_DEV float sum_lanes(float value)
{
    for (int bits = 16; bits > 0; bits /= 2)
        value += __shfl_xor_sync(ALL_LANES, value, bits);
    return value;
}

#endif
