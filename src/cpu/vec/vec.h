/* SPDX-License-Identifier: MIT */
/*
 * The lanes that kernels are written against: vf is V_LANES floats. One header per ISA defines the same vocabulary:
 *
 *   v_set1 v_zero v_load v_store, v_load_n v_store_n     the first n lanes only, the others read as 0
 *   v_add v_sub v_mul v_div v_abs, v_fma = a*b+c, v_fnma = c-a*b
 *   v_min v_max                                         the second operand when either is NaN
 *   v_less v_select = mask ? a : b, v_mask_first        masks
 *   v_sum                                               all lanes, in one order
 *   v_load_bf16 v_load_f16 v_store_bf16 v_store_f16     16-bit elements, rounded to nearest even; also with _n
 *   v_transpose v_prefetch v_stream v_stream_end        a square; a cache line; stores past the caches
 *   v_pow2 v_pow2_halves v_pow2_eighths                 pieces of exp (vec_math.h)
 *
 * v_fma is fused where the ISA fuses. Everything is static inline, so that no copy built for a wider ISA can be linked into
 * a narrower one.
 */
#ifndef SEQMIX_CPU_VEC_VEC_H
#define SEQMIX_CPU_VEC_VEC_H

#if defined(SEQMIX_ISA_AVX512) || defined(SEQMIX_ISA_AMX)
#    if !defined(__AVX512F__) || !defined(__AVX512BW__) || !defined(__AVX512DQ__) || !defined(__AVX512VL__)
#        error "SEQMIX_ISA_AVX512 and SEQMIX_ISA_AMX need -march=x86-64-v4"
#    endif
#    include "vec_avx512.h"
#elif defined(SEQMIX_ISA_AVX2)
#    if !defined(__AVX2__) || !defined(__FMA__) || !defined(__F16C__)
#        error "SEQMIX_ISA_AVX2 needs -march=x86-64-v3"
#    endif
#    include "vec_avx2.h"
#elif defined(SEQMIX_ISA_GENERIC)
#    include "vec_generic.h"
#else
#    error "no ISA level chosen"
#endif

#endif
