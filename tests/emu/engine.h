/* SPDX-License-Identifier: MIT */
/* What the parts of the emulator share: the state of the block that is running. */
#ifndef SEQMIX_TESTS_EMU_ENGINE_H
#define SEQMIX_TESTS_EMU_ENGINE_H

#include <vector>

#include "emu.h"

namespace emu
{

constexpr int MAX_THREADS = 1024, MAX_WARPS = 32, N_BARRIERS = 16;
constexpr size_t STACK = 64 << 10, ARENA = 512 << 10;

struct Copy { /* an asynchronous one, in flight */
    void *to;
    const void *from;
    int bytes, given, group;
    Loc loc;
};

struct Thread {
    void *sp = nullptr;             /* where it was left */
    unsigned char *stack = nullptr; /* while it has one */
    uint3 index{};
    int number = 0, warp = 0, lane = 0;
    Op op = RUNNING; /* what it waits in */
    uint32_t mask = 0;
    void *arg = nullptr;
    Loc loc{};
    std::vector<Copy> copies;
    int groups = 0; /* committed */
};

struct Warp {
    uint32_t full, live, ready, arrived; /* lanes */
    uint32_t clock, synced;              /* check: its time; when its lanes last met */
    uint32_t seen[MAX_WARPS];            /* check: what it knows of the others' times */
};

struct Barrier {
    int count, expected;
    uint32_t waiting[MAX_WARPS];
    Loc loc;
};

struct Piece { /* of shared memory */
    const void *key;
    size_t offset, bytes;
    unsigned char *at;
    const char *name;
};

struct State {
    int n_threads, n_warps, n_live;
    uint32_t serial, launch_serial; /* of the block; of the launch's first one */
    uint64_t random;
    size_t dynamic_bytes;
    bool running, failed;
    Warp warp[MAX_WARPS];
    unsigned char *stacks, *arena;
    const void *args;
    size_t args_size;
};

extern State state;
extern Thread threads[MAX_THREADS];
extern Thread *self; /* the running thread; NULL outside of kernels */
extern std::vector<Piece> pieces;

[[noreturn]] void fail(const char *kind, Loc loc, const char *format, ...) __attribute__((format(printf, 3, 4)));
uint64_t next_random();
void *map_memory(size_t bytes);
/* Runs one block; false when it failed. */
bool run_block(uint64_t index, dim3 grid, dim3 block, void (*run)(void *), void *args);
void open_shared();   /* a new block's: empty */
void finish_copies(); /* the thread exits */

/* check.cpp */
void open_check(); /* a new block */
void piece_valid(const unsigned char *at, size_t bytes);
void warps_met(const uint32_t *lanes);
void device_memory(unsigned char *at, size_t bytes);
void device_memory_gone(unsigned char *at);
void host_wrote(const void *at, size_t bytes);
void access(uintptr_t at, size_t bytes, bool write, bool atomic, Loc loc, const void *pc);

/* record.cpp */
bool record_before(const Arguments &args, void *at); /* false: it is of no use */
void record_after(const void *kernel, dim3 grid, dim3 block, size_t shared);
void each_memory(void (*see)(void *at, size_t bytes)); /* runtime.cpp */

/* counters.cpp; while config.count is set */
void count_launch(const void *kernel, uint64_t blocks, int threads, size_t dynamic_shared);
void count_launch_done();
bool counted_enough(); /* what has run of the launch stands for the rest */
void count_block();    /* it is over */
void count_access(uintptr_t at, size_t bytes, bool write, bool atomic, Loc loc, const void *pc);
void count_copy(const void *to, const void *from, int bytes, int given, Loc loc);
void pause_counting(bool pause);
void count_collective(int warp, Op op, bool whole);
void count_barrier(const uint32_t *lanes);
void count_mma(bool half_depth);
void counted_memory(void *at, size_t bytes);
void counted_memory_gone(void *at);

} /* namespace emu */

#endif
