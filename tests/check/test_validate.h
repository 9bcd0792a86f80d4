/* SPDX-License-Identifier: MIT */
/*
 * A made-up engine for the tests of `validate`: random inputs, and the op computed in double by the shortest loops, with
 * faults that can be switched on by the names that `validate` has for them. It shares no code with what it tests.
 */
#ifndef SEQMIX_CHECK_TEST_VALIDATE_H
#define SEQMIX_CHECK_TEST_VALIDATE_H

#include <stdbool.h>
#include <stdint.h>

enum { SAMPLE_TENSORS = 24, SAMPLE_STRINGS = 24 };

struct sample_tensor {
    char name[16];
    int32_t dtype; /* SEQMIX_ST_F32 in memory as float, or SEQMIX_ST_I32 as int32_t */
    int rank;
    int64_t shape[8], count;
    void *data;
};

struct sample {
    struct sample_tensor tensor[SAMPLE_TENSORS];
    int n;
    char string[SAMPLE_STRINGS][2][48];
    int n_strings;
};

/* Inputs and outputs of `op` with "key=value ..." traits (see each maker) and up to two faults, which may be NULL. */
void sample_make(struct sample *s, const char *op, const char *traits, const char *fault, const char *second_fault);
void sample_free(struct sample *s);

struct sample_tensor *sample_find(struct sample *s, const char *name);
void sample_string(struct sample *s, const char *key, const char *value);

/* Writes F32 tensors as they are, or rounded to bf16 or f16, or as F64; params, states and integers keep their dtype. */
bool sample_write(const struct sample *s, const char *path, int32_t dtype);

#endif
