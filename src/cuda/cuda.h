/* SPDX-License-Identifier: MIT */
/* The CUDA ladder: as the front desk sees it, and what its C and its .cu files promise each other. */
#ifndef SEQMIX_CUDA_CUDA_H
#define SEQMIX_CUDA_CUDA_H

#include "kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Opens the device; SEQMIX_ERR_UNAVAILABLE with the reason in `why` when there is none. */
seqmix_status seqmix_cuda_open(int32_t device, int32_t level_cap, const struct seqmix_kernels **rung, char *why,
                               size_t why_len);

/* ---------------------------------------------------------------- runtime.cu; an int is the runtime's error code, 0 is none */

enum { SEQMIX_CUDA_OUT_OF_MEMORY = 2 };

const char *seqmix_cuda_error_text(int error);
/* Compute capability of a device (-1: the current one) as major*10 + minor. */
int seqmix_cuda_capability(int device, int *capability);
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

#ifdef __cplusplus
}
#endif

#endif
