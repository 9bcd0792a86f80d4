/* SPDX-License-Identifier: MIT */
/* States between the pool and a kernel's hands. */
#include "ref.h"

static void move_element(const seqmix_tensor *pool, int64_t from, int64_t to, bool clear)
{
    const size_t size = seqmix_dtype_size(pool->dtype);
    char *base = pool->data;
    if (clear)
        memset(base + (size_t)to * size, 0, size);
    else
        memcpy(base + (size_t)to * size, base + (size_t)from * size, size);
}

void REF(move_slot)(const seqmix_tensor *pool, int64_t from, int64_t to)
{
    if (to < 0 || from == to) return;
    /* axes 1..3 of the pool; missing ones count as length 1 */
    int64_t shape[3] = {1, 1, 1}, stride[3] = {0, 0, 0};
    for (int axis = 1; axis < pool->rank; axis++) {
        shape[axis - 1] = pool->shape[axis];
        stride[axis - 1] = pool->stride[axis];
    }
    const int64_t to_base = to * pool->stride[0], from_base = from * pool->stride[0];
    for (int64_t i = 0; i < shape[0]; i++)
        for (int64_t j = 0; j < shape[1]; j++)
            for (int64_t k = 0; k < shape[2]; k++) {
                const int64_t offset = i * stride[0] + j * stride[1] + k * stride[2];
                move_element(pool, from_base + offset, to_base + offset, from < 0);
            }
}

static int64_t block_offset(const struct ref_block *block, int64_t slot)
{
    return slot * block->pool->stride[0] + block->head * block->pool->stride[1] +
           block->first_lane * block->pool->stride[block->lane_axis];
}

void REF(load_block)(const struct ref_block *block, int64_t slot, real *s)
{
    memset(s, 0, (size_t)block->n_inner * REF_LANES * sizeof *s);
    if (slot < 0) return;
    const int64_t base = block_offset(block, slot);
    const int64_t inner = block->pool->stride[block->inner_axis], lane = block->pool->stride[block->lane_axis];
    for (int64_t i = 0; i < block->n_inner; i++)
        for (int32_t l = 0; l < block->n_lanes; l++)
            s[i * REF_LANES + l] = ref_get(block->pool, base + i * inner + l * lane);
}

void REF(store_block)(const struct ref_block *block, int64_t slot, const real *s)
{
    if (slot < 0) return;
    const int64_t base = block_offset(block, slot);
    const int64_t inner = block->pool->stride[block->inner_axis], lane = block->pool->stride[block->lane_axis];
    for (int64_t i = 0; i < block->n_inner; i++)
        for (int32_t l = 0; l < block->n_lanes; l++)
            ref_put(block->pool, base + i * inner + l * lane, s[i * REF_LANES + l]);
}
