/* SPDX-License-Identifier: MIT */
/* The harness's memory: aligned for a workspace, never NULL, and all given back when a case ended by a signal. */
#include <stdlib.h>

#include "harness.h"

struct block {
    struct block *before, *after;
    size_t bytes;
};

enum { HEAD = SEQMIX_WORKSPACE_ALIGN };

static struct block all = {&all, &all, 0};

void *check_alloc(size_t bytes)
{
    struct block *block = aligned_alloc(HEAD, HEAD + (bytes + HEAD - 1) / HEAD * HEAD);
    if (block == NULL) {
        fprintf(stderr, "seqmix-check: out of memory (%zu bytes)\n", bytes);
        exit(2);
    }
    block->bytes = bytes;
    block->before = &all;
    block->after = all.after;
    all.after->before = block;
    all.after = block;
    return (char *)block + HEAD;
}

void check_free(void *memory)
{
    if (memory == NULL) return;
    struct block *block = (struct block *)(void *)((char *)memory - HEAD);
    block->before->after = block->after;
    block->after->before = block->before;
    free(block);
}

const void *check_block(const void *at)
{
    for (const struct block *block = all.after; block != &all; block = block->after) {
        const char *begin = (const char *)block + HEAD;
        if ((const char *)at >= begin && (const char *)at < begin + block->bytes) return begin;
    }
    return NULL;
}

void check_free_all(void)
{
    while (all.after != &all)
        check_free((char *)all.after + HEAD);
}
