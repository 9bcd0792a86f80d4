/* SPDX-License-Identifier: MIT */
/* The table of the second reference: rung 0 with the two chunk ops in their plain f32 chunk form. */
#include "chunk_plain.h"

#include "../cpu.h"

void seqmix_plain_load_state(const seqmix_tensor *pool, int64_t slot, int64_t head, int64_t count, float *state)
{
    if (slot < 0) {
        memset(state, 0, (size_t)count * sizeof *state);
        return;
    }
    const int64_t base = slot * pool->stride[0] + head * pool->stride[1], inner = pool->shape[3];
    for (int64_t i = 0; i < count; i++)
        state[i] = seqmix_load_f32(pool, base + i / inner * pool->stride[2] + i % inner * pool->stride[3]);
}

void seqmix_plain_store_state(const seqmix_tensor *pool, int64_t slot, int64_t head, const float *state)
{
    if (slot < 0) return;
    const int64_t base = slot * pool->stride[0] + head * pool->stride[1], inner = pool->shape[3];
    for (int64_t i = 0; i < pool->shape[2] * inner; i++)
        seqmix_store_f32(pool, base + i / inner * pool->stride[2] + i % inner * pool->stride[3], state[i]);
}

/* Every slot but the two is rung 0's. */
#define OWN_SLOT(op_name, kernel) .op_name = kernel, .op_name##_plan = kernel##_plan
#define REF_SLOT(op_name)         .op_name = REF(op_name), .op_name##_plan = REF(op_name##_plan)

const struct seqmix_kernels seqmix_kernels__chunk_plain = {
    .backend = SEQMIX_BACKEND_CPU,
    .level = SEQMIX_LEVEL_CPU_REF,
    .name = "chunk-plain",
    .lower = &seqmix_kernels__ref,
    OWN_SLOT(ssd_chunk_forward, seqmix_ssd_chunk_plain),
    OWN_SLOT(deltanet_chunk_forward, seqmix_deltanet_chunk_plain),
    REF_SLOT(short_conv_rows),
    REF_SLOT(short_conv_step),
    REF_SLOT(selective_scan_rows),
    REF_SLOT(selective_scan_step),
    REF_SLOT(ssd_step),
    REF_SLOT(deltanet_step),
    REF_SLOT(unit_lower_inverse),
    REF_SLOT(gated_rms_norm_rows),
    REF_SLOT(linear),
    REF_SLOT(embed_rows),
    REF_SLOT(rope_rows),
    REF_SLOT(attention_rows),
    REF_SLOT(moe_route),
    REF_SLOT(act_rows),
    REF_SLOT(moe_experts),
    REF_SLOT(argmax),
};
