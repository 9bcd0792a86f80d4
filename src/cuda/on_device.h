/* SPDX-License-Identifier: MIT */
/* How the backend's C files call the runtime and its launchers: with the context's device current, errors mapped in one place. */
#ifndef SEQMIX_CUDA_ON_DEVICE_H
#define SEQMIX_CUDA_ON_DEVICE_H

#include "ctx.h"
#include "cuda.h"

/* The status of the runtime's error code, its text in the context. */
seqmix_status seqmix_cuda_mapped(struct seqmix_context *ctx, int error);

/* Evaluates `call`, which gives an error code, with the context's device current. */
#define ON_DEVICE(ctx, call)                                                                                           \
    do {                                                                                                               \
        int previous = -1, error = seqmix_cuda_enter((ctx)->device, &previous);                                        \
        if (error == 0) error = (call);                                                                                \
        seqmix_cuda_leave((ctx)->device, previous);                                                                    \
        return seqmix_cuda_mapped((ctx), error);                                                                       \
    } while (0)

#endif
