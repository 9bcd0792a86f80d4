/* SPDX-License-Identifier: MIT */
/* Sizes chosen by measurement; docs/BENCH.md holds the measurements. */
#ifndef SEQMIX_CPU_KERN_TUNE_H
#define SEQMIX_CPU_KERN_TUNE_H

enum {
    TUNE_CONV_CHANNELS = 128, /* channels of a short_conv task */
    TUNE_CONV_ROWS = 32,      /* rows of its buffer: 24 KiB with the channels, in L1 */
    TUNE_SCAN_CHANNELS = 32,  /* channels of a selective_scan task */
    TUNE_SCAN_ROWS = 16,      /* rows whose step sizes are computed ahead */
    TUNE_LINEAR_OUTPUTS = 8,  /* outputs of a linear task whose weights are widened together */
    TUNE_LINEAR_DIRECT = 4,   /* up to so many rows, 16-bit weights are widened in registers instead */
    TUNE_DELTA_ROWS = 64,     /* rows of a delta rule segment: its coefficients stay in L2 */
    TUNE_SSD_ROWS = 64,
};

#endif
