/* SPDX-License-Identifier: MIT */
/* Sizes chosen by measurement; docs/BENCH.md holds the measurements. */
#ifndef SEQMIX_CPU_KERN_TUNE_H
#define SEQMIX_CPU_KERN_TUNE_H

enum {
    TUNE_CONV_CHANNELS = 1024, /* channels of a short_conv task: 4 KiB of a row at a time */
    TUNE_CONV_ROOM = 16384,    /* its weights and past rows: 64 KiB, fewer channels where K is large */
    TUNE_CONV_WIDTH = 4,       /* K of every published model */
    TUNE_SCAN_CHANNELS = 256,  /* channels of a selective_scan task */
    TUNE_SCAN_UNROLLED = 16,   /* states of a channel in every published Mamba-1 */
    TUNE_SCAN_ROWS = 16,       /* rows whose step sizes are computed ahead */
    TUNE_LINEAR_ROWS = 256,    /* rows whose sums wait together */
    TUNE_LINEAR_PANELS = 8,    /* panels of a task, where that leaves so many tasks */
    TUNE_LINEAR_TASKS = 16,
    TUNE_LINEAR_SHORT = 128,     /* up to so many inputs, sums in short runs: long ones would lose more than rung 0 */
    TUNE_LINEAR_OUTPUTS = 512,   /* most outputs of a task of few rows */
    TUNE_LINEAR_STREAM = 16384,  /* bytes between the weights that its lanes read at a time */
    TUNE_LINEAR_AHEAD = 256,     /* bytes of weights asked for ahead */
    TUNE_LINEAR_X_AHEAD = 2048,  /* bytes of packed x asked for ahead */
    TUNE_STEP_AHEAD = 4,         /* rows of a state asked for ahead in the steps: 2 KiB of f32 */
    TUNE_NORM_KEPT = 8192,       /* inputs that the norm keeps between its passes: 32 KiB */
    TUNE_STREAM_BYTES = 4 << 20, /* outputs of that size are written past the caches */
    TUNE_DELTA_HEADS = 2,        /* value heads of a task, which share their key head's rows; their states stay in L2 */
    TUNE_SSD_HEADS = 4,          /* heads of a task, which share their group's rows */
    TUNE_CHUNK_ROWS = 16,        /* rows of a chunk of SSD and the delta rule */
    TUNE_CHUNK_VECTORS =
        2, /* vectors of a state tile's row; with the group's rows, 8 sums: enough for two FMAs a cycle */
    TUNE_CHUNK_GROUP = 4,
    TUNE_ATTENTION_QUERIES = 64, /* query vectors of an attention task: each key is fetched once for all of them */
    TUNE_ATTENTION_KEYS = 48,    /* keys of a block, whole tiles of scores and lanes; 24 KiB at D = 128 */
    TUNE_ARGMAX_PIECE = 512,     /* elements that argmax searches one by one at the end */
    TUNE_MAX_HEAD_DIM = 256,     /* the limits of the argument rules: sizes of what lies on the stack */
    TUNE_MAX_EXPERTS = 1024,
    TUNE_MAX_GROUPS = 64,
};

#endif
