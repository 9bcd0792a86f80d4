/* SPDX-License-Identifier: MIT */
/* The library's own object behind seqmix_ctx. Only dispatch/ctx.c creates one. */
#ifndef SEQMIX_COMMON_CTX_H
#define SEQMIX_COMMON_CTX_H

#include <stdbool.h>

#include "kernels.h"

struct seqmix_pool;

/* A bit of the context's flags that only tests set: what SEQMIX_CTX_FAST allows is done wherever it can be, worth it or not. */
enum { SEQMIX_CTX_FAST_ALWAYS = 1 << 30 };

/* A backend's memory and clock, behind seqmix_mem_alloc and its neighbours. */
struct seqmix_memory {
    size_t state_bytes;                                /* of what a context keeps for it, zeros when opened */
    seqmix_status (*open)(struct seqmix_context *ctx); /* when a context is made, and its end */
    void (*close)(struct seqmix_context *ctx);
    seqmix_status (*alloc)(struct seqmix_context *ctx, size_t bytes, void **out);
    void (*release)(struct seqmix_context *ctx, void *memory);
    seqmix_status (*copy)(struct seqmix_context *ctx, void *to, const void *from, size_t bytes);
    seqmix_status (*sync)(struct seqmix_context *ctx);
    seqmix_status (*elapsed)(struct seqmix_context *ctx, double *milliseconds);
};

/* One entry of the open-addressing table that finds two writers of one slot. */
struct seqmix_slot_owner {
    int64_t slot; /* -1 = free */
    int32_t seq;
};

struct seqmix_context {
    seqmix_ctx pub;                    /* first: a seqmix_ctx * is a struct seqmix_context * */
    const struct seqmix_kernels *rung; /* the best rung this context may use */
    uint32_t flags;
    int32_t backend, device, n_workers, max_seqs;
    void *stream;
    seqmix_parallel_fn parallel; /* the caller's runner, or NULL */
    void *parallel_user;
    bool in_runner;           /* the caller's runner is active: a call from inside it is serial */
    struct seqmix_pool *pool; /* NULL: serial, or the caller's runner */
    struct seqmix_slot_owner *slots;
    int64_t slots_capacity; /* a power of two > 2*max_seqs */
    double mark;            /* seqmix_elapsed's last mark, milliseconds */
    void *device_mark;      /* a device's: an event */
    void *device_state;     /* a device's: state_bytes of its own */
    int32_t processors;     /* of a device: what its blocks run on */
    int32_t shared_bytes;   /* of a device: the most shared memory of a block */
    const char *op;         /* the op of the call in progress, for messages */
    char error[256];
};

#endif
