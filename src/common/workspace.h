/* SPDX-License-Identifier: MIT */
/*
 * Bump cursor over the caller's workspace. A kernel has one layout function that takes its buffers from a cursor; the plan
 * runs it with base NULL to learn the size, the op with the real base: the two cannot disagree.
 */
#ifndef SEQMIX_COMMON_WORKSPACE_H
#define SEQMIX_COMMON_WORKSPACE_H

#include <seqmix/seqmix.h>

struct seqmix_cursor {
    char *base; /* NULL: size only */
    size_t used;
};

/* The next `bytes`, aligned to SEQMIX_WORKSPACE_ALIGN; NULL in size-only mode. */
static inline void *seqmix_take(struct seqmix_cursor *cursor, size_t bytes)
{
    const size_t at = cursor->used, align = SEQMIX_WORKSPACE_ALIGN;
    cursor->used = at + (bytes + align - 1) / align * align;
    return cursor->base != NULL ? cursor->base + at : NULL;
}

#endif
