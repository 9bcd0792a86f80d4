/* SPDX-License-Identifier: MIT */
/*
 * cuBLASLt's binary interface, as much of it as one matrix product takes; its header is not needed to build. The numbers and sizes
 * are those of cublasLt.h, the same since CUDA 11, and tests/emu/cublaslt/abi.cpp holds them against it where it is at hand.
 */
#ifndef SEQMIX_CUDA_CUBLASLT_ABI_H
#define SEQMIX_CUDA_CUBLASLT_ABI_H

#include <stddef.h>
#include <stdint.h>

enum { LT_SUCCESS = 0, LT_NOT_SUPPORTED = 15 };                      /* cublasStatus_t */
enum { LT_R_32F = 0, LT_R_16F = 2, LT_R_16BF = 14 };                 /* cudaDataType_t */
enum { LT_COMPUTE_32F = 68 };                                        /* cublasComputeType_t */
enum { LT_OP_T = 1 };                                                /* cublasOperation_t */
enum { LT_DESC_TRANSA = 3, LT_DESC_EPILOGUE = 7, LT_DESC_BIAS = 8 }; /* cublasLtMatmulDescAttributes_t */
enum { LT_EPILOGUE_BIAS = 4 };                                       /* cublasLtEpilogue_t */
enum {
    LT_PREF_WORKSPACE = 1,
    LT_PREF_REDUCTIONS = 3,
    LT_PREF_ALIGNMENT_A = 5
};                                      /* ...PreferenceAttributes_t; B, C, D: 6 to 8 */
enum { LT_REDUCTION_COMPUTE_TYPE = 2 }; /* cublasLtReductionScheme_t, a mask */

typedef struct lt_desc {
    uint64_t words[32];
} lt_desc;
typedef struct lt_layout {
    uint64_t words[8];
} lt_layout;
typedef struct lt_preference {
    uint64_t words[8];
} lt_preference;
typedef struct lt_algo {
    uint64_t words[8];
} lt_algo;
typedef struct lt_choice { /* cublasLtMatmulHeuristicResult_t */
    lt_algo algo;
    size_t workspace;
    int32_t state;
    float waves;
    int32_t reserved[4];
} lt_choice;

/* X(name, function, parameters); each returns a status. Pointers lead to the structs above, `handle` to cuBLASLt's own. */
#define LT_FUNCTIONS(X)                                                                                                \
    X(create, cublasLtCreate, (void **handle))                                                                         \
    X(destroy, cublasLtDestroy, (void *handle))                                                                        \
    X(desc_init, cublasLtMatmulDescInit_internal, (lt_desc * desc, size_t size, int32_t compute, int32_t scale))       \
    X(desc_set, cublasLtMatmulDescSetAttribute, (lt_desc * desc, int32_t attribute, const void *value, size_t bytes))  \
    X(layout_init, cublasLtMatrixLayoutInit_internal,                                                                  \
      (lt_layout * layout, size_t size, int32_t type, uint64_t rows, uint64_t columns, int64_t ld))                    \
    X(preference_init, cublasLtMatmulPreferenceInit_internal, (lt_preference * preference, size_t size))               \
    X(preference_set, cublasLtMatmulPreferenceSetAttribute,                                                            \
      (lt_preference * preference, int32_t attribute, const void *value, size_t bytes))                                \
    X(choose, cublasLtMatmulAlgoGetHeuristic,                                                                          \
      (void *handle, lt_desc *desc, lt_layout *a, lt_layout *b, lt_layout *c, lt_layout *d, lt_preference *preference, \
       int32_t wanted, lt_choice *choices, int32_t *given))                                                            \
    X(multiply, cublasLtMatmul,                                                                                        \
      (void *handle, lt_desc *desc, const void *alpha, const void *a, lt_layout *a_layout, const void *b,              \
       lt_layout *b_layout, const void *beta, const void *c, lt_layout *c_layout, void *d, lt_layout *d_layout,        \
       const lt_algo *algo, void *workspace, size_t workspace_bytes, void *stream))

#endif
