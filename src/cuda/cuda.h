/* SPDX-License-Identifier: MIT */
/* The CUDA ladder: as the front desk sees it, and what its C and its .cu files promise each other. */
#ifndef SEQMIX_CUDA_CUDA_H
#define SEQMIX_CUDA_CUDA_H

#include <stdbool.h>

#include "kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Makes the tables of all rungs; once, before the first open. */
void seqmix_cuda_build_rungs(void);
/* Opens the device; SEQMIX_ERR_UNAVAILABLE with the reason in `why` when there is none. */
seqmix_status seqmix_cuda_open(int32_t device, int32_t level_cap, const struct seqmix_kernels **rung, char *why,
                               size_t why_len);

/* ---------------------------------------------------------------- runtime.cu; an int is the runtime's error code, 0 is none */

enum { SEQMIX_CUDA_OUT_OF_MEMORY = 2 };

const char *seqmix_cuda_error_text(int error);
/* Of a device (-1: the current one): compute capability as major*10 + minor. */
int seqmix_cuda_capability(int device, int *capability);
/* Of a device: its ordinal, which -1 takes from the current one, multiprocessors, and the most shared memory of a block. */
int seqmix_cuda_facts(int *device, int *processors, int *shared_bytes);
/* Makes `device` current unless it is -1, and back. */
int seqmix_cuda_enter(int device, int *previous);
void seqmix_cuda_leave(int device, int previous);
int seqmix_cuda_alloc(size_t bytes, void **out);
void seqmix_cuda_release(void *memory);
int seqmix_cuda_copy(void *to, const void *from, size_t bytes, void *stream);
int seqmix_cuda_sync(void *stream);
/* Waits for the stream; milliseconds since the last call with this mark (0 at the first), which it moves. */
int seqmix_cuda_elapsed(void **mark, void *stream, float *milliseconds);
void seqmix_cuda_forget(void *mark);

/* ---------------------------------------------------------------- launchers: enqueue on the stream, return */

int seqmix_short_conv__cuda_simple(const seqmix_conv_args *args, void *workspace, void *stream);
int seqmix_selective_scan__cuda_simple(const seqmix_scan_args *args, void *workspace, void *stream);
int seqmix_ssd__cuda_simple(const seqmix_ssd_args *args, void *workspace, void *stream);
int seqmix_deltanet__cuda_simple(const seqmix_deltanet_args *args, void *workspace, void *stream);
int seqmix_unit_lower_inverse__cuda_simple(const seqmix_inverse_args *args, void *workspace, void *stream);
int seqmix_gated_rms_norm__cuda_simple(const seqmix_norm_args *args, void *workspace, void *stream);
int seqmix_linear__cuda_simple(const seqmix_linear_args *args, void *workspace, void *stream);
int seqmix_embed__cuda_simple(const seqmix_embed_args *args, void *workspace, void *stream);
int seqmix_rope__cuda_simple(const seqmix_rope_args *args, void *workspace, void *stream);
int seqmix_attention__cuda_simple(const seqmix_attention_args *args, void *workspace, void *stream);
int seqmix_route__cuda_simple(const seqmix_route_args *args, void *workspace, void *stream);
int seqmix_act__cuda_simple(const seqmix_act_args *args, void *workspace, void *stream);
size_t seqmix_moe_workspace__cuda_simple(const seqmix_moe_args *args);
int seqmix_moe__cuda_simple(const seqmix_moe_args *args, void *workspace, void *stream);
int seqmix_argmax__cuda_simple(const seqmix_argmax_args *args, void *workspace, void *stream);

/* ---------------------------------------------------------------- rung cuda-sm80: <op>.cu, listed by install_sm80.c */

/* The ops that this rung has kernels of: X(op, family). What a plan answers SEQMIX_ERR_UNSUPPORTED to, cuda-simple runs. */
#define SEQMIX_SM80_OPS(X)                                                                                             \
    X(ssd_chunk_forward, ssd)                                                                                          \
    X(ssd_step, ssd)                                                                                                   \
    X(short_conv_rows, conv)                                                                                           \
    X(short_conv_step, conv)                                                                                           \
    X(selective_scan_rows, scan)                                                                                       \
    X(selective_scan_step, scan)                                                                                       \
    X(gated_rms_norm_rows, norm)                                                                                       \
    X(linear, linear) X(deltanet_chunk_forward, deltanet) X(deltanet_step, deltanet) X(unit_lower_inverse, inverse)

/* Of each op its slot's plan, and a launcher that enqueues on the context's stream and returns the runtime's error code. */
#define SEQMIX_SM80_OP(op, family)                                                                                     \
    seqmix_status seqmix_##op##_plan__cuda_sm80(const struct seqmix_context *ctx, const seqmix_##family##_args *args,  \
                                                struct seqmix_plan *plan);                                             \
    int seqmix_##op##__cuda_sm80(const struct seqmix_context *ctx, const seqmix_##family##_args *args, void *workspace);
SEQMIX_SM80_OPS(SEQMIX_SM80_OP)

/* Files with kernels that want more than 48 KiB of dynamic shared memory: X(file). Each lets its kernels have all that a block of the
 * current device may; plans decline what wants more. Once a context, so that a call does nothing but enqueue. */
#define SEQMIX_SM80_LARGE(X)                                                                                           \
    X(ssd) X(selective_scan) X(linear) X(deltanet) X(deltanet_segments) X(deltanet_kda) X(unit_lower_inverse)
#define SEQMIX_SM80_PREPARE(file) int seqmix_##file##_prepare__cuda_sm80(int shared_bytes);
SEQMIX_SM80_LARGE(SEQMIX_SM80_PREPARE)
int seqmix_prepare__cuda_sm80(int shared_bytes); /* all of them */

/* A convolution's step and the mixer's on its rows in one launch: X(family). Whether these two calls fit together, and the launch. */
#define SEQMIX_SM80_CONV_STEPS(X) X(deltanet) X(ssd)
#define SEQMIX_SM80_CONV_STEP(family)                                                                                  \
    bool seqmix_##family##_conv_step_fits__cuda_sm80(const seqmix_conv_args *conv,                                     \
                                                     const seqmix_##family##_args *mixer);                             \
    int seqmix_##family##_conv_step__cuda_sm80(const struct seqmix_context *ctx, const seqmix_conv_args *conv,         \
                                               const seqmix_##family##_args *mixer);
SEQMIX_SM80_CONV_STEPS(SEQMIX_SM80_CONV_STEP)

#ifdef __cplusplus
}
#endif

#endif
