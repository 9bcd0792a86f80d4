/* SPDX-License-Identifier: MIT */
/*
 * Writing weights in fewer bits: rows of f32 into the blocks of a GGUF tensor type, and whole files.
 */
#ifndef SEQMIX_MODEL_QUANTIZE_H
#define SEQMIX_MODEL_QUANTIZE_H

#include "gguf.h"

/*
 * n finite values, whole blocks, into the bytes of a type: F32, F16, BF16, Q8_0, Q4_0, Q5_0, Q5_1, IQ4_NL, Q4_K, Q5_K, Q6_K.
 * Scales and offsets are searched for the least squared error. False for another type.
 */
bool seqmix_quantize_row(seqmix_dtype dtype, const float *x, int64_t n, void *out);

/* What a file became. */
typedef struct seqmix_quantized {
    int64_t tensors, changed; /* all, and those whose type changed */
    int64_t fallbacks;        /* matrices whose rows the wanted type's blocks do not divide */
    size_t bytes_before, bytes_after;
    char note[192]; /* what else to know of the file; or "" */
} seqmix_quantized;

/*
 * Makes a GGUF file of F32, F16 and BF16 tensors, in a GGUF file or a directory in the Hugging Face layout (see export.h). Its
 * matrices (of two axes or more, named .weight) become `type`, a name such as "Q4_K". Where the rows are no whole blocks: Q5_0,
 * Q5_1, Q8_0 in place of Q4_K, Q5_K, Q6_K, and F16 where 32 does not divide them either. Vectors, norms, convolutions, ssm_a,
 * ssm_d and routers stay or become F32. The number of workers changes speed only. The new file appears under its name only
 * when it is complete.
 */
bool seqmix_quantize_file(const char *type, const char *in, const char *out, int64_t workers, seqmix_quantized *done,
                          seqmix_why why);

#endif
