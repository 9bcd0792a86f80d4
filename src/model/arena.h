/* SPDX-License-Identifier: MIT */
/*
 * Memory taken piece by piece from one block. Without a block (base NULL) the same code only counts, so that what is asked
 * for and what is used cannot differ. Setting `used` back gives pieces back; `peak` is what a block must hold.
 */
#ifndef SEQMIX_MODEL_ARENA_H
#define SEQMIX_MODEL_ARENA_H

#include <stddef.h>
#include <stdint.h>

typedef struct seqmix_arena {
    char *base;
    size_t used, peak;
} seqmix_arena;

#define SEQMIX_ARENA_ALIGN 256u

static inline void *seqmix_arena_take(seqmix_arena *arena, size_t bytes)
{
    void *piece = arena->base != NULL ? arena->base + arena->used : NULL;
    arena->used += (bytes + SEQMIX_ARENA_ALIGN - 1) / SEQMIX_ARENA_ALIGN * SEQMIX_ARENA_ALIGN;
    if (arena->used > arena->peak) arena->peak = arena->used;
    return piece;
}

#endif
