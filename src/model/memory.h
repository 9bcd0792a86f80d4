/* SPDX-License-Identifier: MIT */
/* Whether a model fits: what it needs, in parts, against what the machine has to give. */
#ifndef SEQMIX_MODEL_MEMORY_H
#define SEQMIX_MODEL_MEMORY_H

#include "json.h"

typedef struct seqmix_memory {
    size_t weights;    /* mapped, as stored */
    size_t parameters; /* small ones, widened to f32 */
    size_t state;      /* all slots */
    size_t cache;      /* keys and values */
    size_t buffers;    /* activations, workspace, logits */
} seqmix_memory;

size_t seqmix_memory_total(const seqmix_memory *memory);
/* MemAvailable of a /proc/meminfo text in bytes; -1 when it does not say. */
int64_t seqmix_memory_parse(const char *meminfo);
/* The same of this machine. */
int64_t seqmix_memory_available(void);
/* available < 0 is unknown, which counts as too little. */
bool seqmix_memory_fits(const seqmix_memory *memory, int64_t available, seqmix_why why);

#endif
