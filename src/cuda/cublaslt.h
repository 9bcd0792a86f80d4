/* SPDX-License-Identifier: MIT */
/* linear on cuBLASLt, where the machine has it (cublaslt.c). What it does not serve is linear.cu's own. */
#ifndef SEQMIX_CUDA_CUBLASLT_H
#define SEQMIX_CUDA_CUBLASLT_H

#include <stdbool.h>

#include "cublaslt_abi.h"
#include "kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

/* All that its choice depends on. */
struct seqmix_cublaslt_shape {
    int64_t rows, inputs, outputs, x_step, weight_step, y_step, residual_step; /* steps: elements between rows */
    int64_t type, y_type, bias, residual;                                      /* the last two: whether there is one */
};

struct seqmix_cublaslt_plan {
    struct seqmix_cublaslt_shape shape; /* rows 0: none yet */
    bool served;
    lt_algo algo;
    size_t workspace;
};

enum { SEQMIX_CUBLASLT_PLANS = 128 };

/* A context's: the functions, the library's handle (NULL: there is none), and what it chose for the last shapes. */
struct seqmix_cublaslt {
#define LT_MEMBER(name, function, parameters) int32_t(*name) parameters;
    LT_FUNCTIONS(LT_MEMBER)
#undef LT_MEMBER
    void *handle;
    uint32_t turn;
    struct seqmix_cublaslt_plan plans[SEQMIX_CUBLASLT_PLANS];
};

/* With the device current. Finding no library is no error. */
void seqmix_cublaslt_open(struct seqmix_cublaslt *lt);
void seqmix_cublaslt_close(struct seqmix_cublaslt *lt);

/* Whether it takes calls of this shape, and the workspace of one. */
bool seqmix_cublaslt_serves(struct seqmix_cublaslt *lt, const seqmix_linear_args *args, size_t *workspace);
/* Enqueues the call; false, and nothing is written: somebody else has to. */
bool seqmix_cublaslt_linear(struct seqmix_cublaslt *lt, const seqmix_linear_args *args, void *workspace, void *stream);

#ifdef __cplusplus
}
#endif

#endif
