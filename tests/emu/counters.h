/* SPDX-License-Identifier: MIT */
/* What launches did, counted: counters.cpp. */
#ifndef SEQMIX_TESTS_EMU_COUNTERS_H
#define SEQMIX_TESTS_EMU_COUNTERS_H

#include <cstdint>
#include <string>
#include <vector>

namespace emu
{

/* Of one launch. A request is one access of a warp: what its lanes do at one place of the code at one time. */
struct Counts {
    uint64_t global_requests, sectors, ideal_sectors; /* of 32 bytes, over all requests; if lanes lay side by side */
    uint64_t global_bytes;                            /* that lanes asked for */
    uint64_t fetched, stored; /* bytes of sectors: a block moves each once, and a launch none twice that it need not */
    uint64_t between;         /* bytes of sectors: a block moves each once */
    uint64_t shared_requests, wavefronts, ideal_wavefronts; /* ideal: without a bank conflict */
    uint64_t shuffles, votes, barriers, mma_16, mma_8;      /* of a warp; mma of 4096 and of 2048 flop */
    uint64_t exps, roots,
        fmas; /* of a thread: expf, logf and their like; sqrtf; fmaf. Plain a/b, a*b, a+b are not seen */
    uint64_t atomics;
};

struct LaunchCounts {
    const void *kernel;
    uint64_t blocks, blocks_run; /* counts are of those that ran, times blocks / blocks_run */
    int threads;                 /* of a block */
    uint64_t static_shared, dynamic_shared;
    Counts counts;
};

/* Counting goes on while config.count is set; launches pile up until they are taken. */
std::vector<LaunchCounts> take_counts();
/* As its author wrote it, without arguments: "ssd_chunk_kernel<float,80>". */
std::string kernel_name(const void *kernel);
/* In full: "void ssd_chunk_kernel<float, 80>(seqmix_ssd_args)". */
std::string kernel_signature(const void *kernel);

} /* namespace emu */

#endif
