/* SPDX-License-Identifier: MIT */
/* A small writer of safetensors files, for tests that need dumps. */
#ifndef SEQMIX_CHECK_SAFETENSORS_WRITE_H
#define SEQMIX_CHECK_SAFETENSORS_WRITE_H

#include <stdbool.h>
#include <stdint.h>

struct seqmix_st_out {
    const char *name;
    int32_t dtype; /* SEQMIX_ST_* of src/model/safetensors.h */
    int32_t rank;
    int64_t shape[8];
    const void *data;
};

/* `metadata`: key, value, key, value, ..., NULL; may be NULL. */
bool seqmix_st_write(const char *path, const struct seqmix_st_out *tensors, int n, const char *const *metadata);

#endif
