/* SPDX-License-Identifier: MIT */
/*
 * What rung cuda-sm80 does better than cuda-simple: cp.async, ldmatrix and mma.sync, for capability 8.0 and later. A slot's plan
 * is its kernel file's own; running it is a launch with the device current.
 */
#include "on_device.h"

#define SM80_RUN(op, family)                                                                                           \
    static seqmix_status op(struct seqmix_context *ctx, const seqmix_##family##_args *args, void *workspace)           \
    {                                                                                                                  \
        ON_DEVICE(ctx, seqmix_##op##__cuda_sm80(ctx, args, workspace));                                                \
    }
SEQMIX_SM80_OPS(SM80_RUN)

#define SM80_CONV_STEP(family)                                                                                         \
    static seqmix_status family##_conv_step(struct seqmix_context *ctx, const seqmix_conv_args *conv,                  \
                                            const seqmix_##family##_args *mixer)                                       \
    {                                                                                                                  \
        if (!seqmix_##family##_conv_step_fits__cuda_sm80(conv, mixer)) return SEQMIX_ERR_UNSUPPORTED;                  \
        ON_DEVICE(ctx, seqmix_##family##_conv_step__cuda_sm80(ctx, conv, mixer));                                      \
    }
SEQMIX_SM80_CONV_STEPS(SM80_CONV_STEP)

int seqmix_prepare__cuda_sm80(int shared_bytes)
{
    int error = 0;
#define SM80_PREPARE(file)                                                                                             \
    if (error == 0) error = seqmix_##file##_prepare__cuda_sm80(shared_bytes);
    SEQMIX_SM80_LARGE(SM80_PREPARE)
    return error;
}

#define SM80_CONV_STEP_SLOT(family) .family##_conv_step = family##_conv_step,
#define SM80_SLOT(op_name, family)  .op_name = op_name, .op_name##_plan = seqmix_##op_name##_plan__cuda_sm80,

const struct seqmix_kernels seqmix_kernels__cuda_sm80 = {.level = SEQMIX_LEVEL_CUDA_SM80,
                                                         .name = "cuda-sm80",
                                                         SEQMIX_SM80_OPS(SM80_SLOT)
                                                             SEQMIX_SM80_CONV_STEPS(SM80_CONV_STEP_SLOT)};
