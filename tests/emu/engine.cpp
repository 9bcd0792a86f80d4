/* SPDX-License-Identifier: MIT */
/*
 * Fibers, their scheduler, warp collectives and barriers. The threads of a block run one at a time until they wait; the order
 * is forward, reverse or random. A failure abandons all fibers of the block.
 */
#include "engine.h"

#include <sys/mman.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <string>

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace emu
{

Config config;
State state;
Thread threads[MAX_THREADS];
Thread *self;

static Barrier barriers[N_BARRIERS];
static std::vector<unsigned char *> free_stacks;
static unsigned char *given_back; /* the stack of a thread that has just exited, still in use */
static void *main_sp;
static uint32_t ready_warps;
static int current_warp;
static void (*kernel)(void *);
static void *kernel_args;
static std::string first_report;

/* ---------------------------------------------------------------- context switch (System V, x86-64) */

/* All fibers switch at one place and go on by `ret`, so that return prediction stays right. */
extern "C" void emu_switch(void **save, void *to);
asm(R"(
.text
.globl emu_switch
.hidden emu_switch
.type emu_switch,@function
emu_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
.size emu_switch, .-emu_switch
)");

void *map_memory(size_t bytes)
{
    void *at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) abort();
    return at;
}

uint64_t next_random()
{
    uint64_t x = state.random;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    return state.random = x;
}

/* ---------------------------------------------------------------- scheduling */

static void set_ready(int warp, uint32_t lanes)
{
    if (lanes == 0) return;
    state.warp[warp].ready |= lanes;
    ready_warps |= 1u << warp;
}

static void unready(const Thread *t)
{
    Warp &w = state.warp[t->warp];
    w.ready &= ~(1u << t->lane);
    if (w.ready == 0) ready_warps &= ~(1u << t->warp);
}

static int nth_bit(uint32_t bits, unsigned n)
{
    while (n-- > 0)
        bits &= bits - 1;
    return __builtin_ctz(bits);
}

/* The next thread to run, no longer ready; NULL when all wait. */
static Thread *pick()
{
    if (ready_warps == 0) return nullptr;
    int w, l;
    if (config.order == FORWARD) {
        const uint32_t from = ready_warps & ~((1u << current_warp) - 1);
        w = __builtin_ctz(from != 0 ? from : ready_warps);
        l = __builtin_ctz(state.warp[w].ready);
    } else if (config.order == REVERSE) {
        const uint32_t to = ready_warps & ((2u << current_warp) - 1);
        w = 31 - __builtin_clz(to != 0 ? to : ready_warps);
        l = 31 - __builtin_clz(state.warp[w].ready);
    } else {
        const uint64_t r = next_random();
        w = nth_bit(ready_warps, (unsigned)(r >> 8 & 0xffff) % (unsigned)__builtin_popcount(ready_warps));
        l = nth_bit(state.warp[w].ready,
                    (unsigned)(r >> 32 & 0xffff) % (unsigned)__builtin_popcount(state.warp[w].ready));
    }
    current_warp = w;
    Thread *t = &threads[w * 32 + l];
    unready(t);
    return t;
}

static void thread_main();

/* A stack whose first switch starts thread_main. The tops are spread over cache sets. */
static void give_stack(Thread *t)
{
    t->stack = free_stacks.back();
    free_stacks.pop_back();
    const size_t index = (size_t)(t->stack - state.stacks) / STACK;
    void **sp = reinterpret_cast<void **>(t->stack + STACK - 64 - index * 9 % 32 * 128);
    *--sp = nullptr;
    *--sp = reinterpret_cast<void *>(thread_main);
    for (int i = 0; i < 6; i++)
        *--sp = nullptr;
    t->sp = sp;
}

static void take_back()
{
    if (given_back != nullptr) free_stacks.push_back(given_back);
    given_back = nullptr;
}

/* From a thread or (NULL) the scheduler to another. */
static void switch_to(Thread *from, Thread *to)
{
    if (to != nullptr && to->stack == nullptr) give_stack(to);
    self = to;
    if (to != nullptr) threadIdx = to->index;
    emu_switch(from != nullptr ? &from->sp : &main_sp, to != nullptr ? to->sp : main_sp);
    take_back();
}

/* The running thread waits for what its fields say. */
static void park()
{
    Thread *me = self, *next = pick();
    if (next != me) switch_to(me, next);
    me->op = RUNNING;
}

/* The running thread may go on, but another may go first. */
static void go_on()
{
    if (config.order != FORWARD) {
        set_ready(self->warp, 1u << self->lane);
        park();
    }
    self->op = RUNNING;
}

/* ---------------------------------------------------------------- failures */

static const char *op_name(Op op)
{
    static const char *const names[] = {"no wait", "__syncwarp", "a shuffle", "a vote",
                                        "mma",     "ldmatrix",   "a barrier", "exit"};
    return names[op];
}

static void record(const char *kind, Loc loc, const char *format, va_list list)
{
    char text[1200], head[200];
    vsnprintf(text, sizeof text, format, list);
    state.failed = true;
    if (!first_report.empty()) return;
    snprintf(head, sizeof head, "emu: %s: block (%u,%u,%u)", kind, blockIdx.x, blockIdx.y, blockIdx.z);
    first_report = head;
    if (self != nullptr) {
        snprintf(head, sizeof head, " thread (%u,%u,%u)", self->index.x, self->index.y, self->index.z);
        first_report += head;
    }
    if (loc.file != nullptr) first_report += std::string(" at ") + loc.file + ":" + std::to_string(loc.line);
    first_report += std::string(": ") + text;
}

void fail(const char *kind, Loc loc, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    record(kind, loc, format, list);
    va_end(list);
    switch_to(self, nullptr);
    abort(); /* an abandoned fiber never runs again */
}

static void fail_from_scheduler(const char *kind, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void fail_from_scheduler(const char *kind, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    record(kind, Loc{nullptr, 0}, format, list);
    va_end(list);
}

const char *report()
{
    return first_report.c_str();
}

void clear_report()
{
    first_report.clear();
}

/* ---------------------------------------------------------------- warps */

int lane()
{
    return self->lane;
}

void vote(void **args, uint32_t mask)
{
    unsigned bits = 0;
    for (uint32_t m = mask; m != 0; m &= m - 1) {
        const int l = __builtin_ctz(m);
        bits |= (unsigned)static_cast<Vote *>(args[l])->in << l;
    }
    for (uint32_t m = mask; m != 0; m &= m - 1)
        static_cast<Vote *>(args[__builtin_ctz(m)])->out = bits;
}

void collective(Op op, uint32_t mask, void *arg, Collective fn, Loc loc)
{
    Thread *me = self;
    Warp &w = state.warp[me->warp];
    const uint32_t bit = 1u << me->lane;
    if ((mask & bit) == 0)
        fail("bad mask", loc, "lane %d in %s, whose mask %08x lacks it", me->lane, op_name(op), mask);
    if ((mask & ~w.full) != 0 && (op == MMA || op == LDMATRIX))
        fail("partial warp", loc, "%s needs 32 lanes, the warp has %08x", op_name(op), w.full);
    if ((mask & w.full & ~w.live) != 0)
        fail("exited lane", loc, "%s with mask %08x waits for lanes %08x, which have returned", op_name(op), mask,
             mask & w.full & ~w.live);
    me->op = op;
    me->mask = mask;
    me->arg = arg;
    me->loc = loc;
    w.arrived |= bit;
    const uint32_t need = mask & w.live;
    if ((w.arrived & need) != need) {
        park();
        return;
    }
    void *args[32] = {};
    for (uint32_t m = need; m != 0; m &= m - 1) {
        const Thread &t = threads[me->warp * 32 + __builtin_ctz(m)];
        if (t.op != op || t.mask != mask)
            fail("warp divergence", loc, "%s (mask %08x) meets lane %d in %s (mask %08x) at %s:%d", op_name(op), mask,
                 t.lane, op_name(t.op), t.mask, t.loc.file, t.loc.line);
        args[t.lane] = t.arg;
    }
    if (fn != nullptr) fn(args, need);
    w.arrived &= ~need;
    if (op == SYNCWARP) w.synced = ++w.clock; /* a shuffle orders no memory */
    if (config.count) count_collective(me->warp, op, need == w.full);
    set_ready(me->warp, need & ~bit);
    go_on();
}

/* ---------------------------------------------------------------- barriers */

static bool same_place(Loc a, Loc b)
{
    return a.line == b.line && strcmp(a.file, b.file) == 0;
}

void barrier(int id, int n, Loc loc)
{
    Thread *me = self;
    if (n < 0 && state.n_live != state.n_threads)
        fail("barrier divergence", loc, "__syncthreads after %d of %d threads returned", state.n_threads - state.n_live,
             state.n_threads);
    if (id < 0 || id >= N_BARRIERS) fail("bad barrier", loc, "there is no barrier %d", id);
    if (n >= 0 && n % 32 != 0) fail("bad barrier", loc, "%d threads are no whole warps", n);
    Barrier &b = barriers[id];
    if (b.count == 0) {
        b.expected = n;
        b.loc = loc;
    } else if (b.expected != n || (n < 0 && !same_place(b.loc, loc))) {
        fail("barrier divergence", loc, "%d threads wait in the one at %s:%d", b.count, b.loc.file, b.loc.line);
    }
    b.count++;
    b.waiting[me->warp] |= 1u << me->lane;
    me->op = BARRIER;
    me->loc = loc;
    if (b.count < (n < 0 ? state.n_live : n)) {
        park();
        return;
    }
    if (config.check) warps_met(b.waiting);
    if (config.count) count_barrier(b.waiting);
    for (int w = 0; w < state.n_warps; w++) {
        set_ready(w, b.waiting[w]);
        b.waiting[w] = 0;
    }
    b.count = 0;
    unready(me);
    go_on();
}

/* ---------------------------------------------------------------- blocks */

static void check_exit(const Thread *me)
{
    const Barrier &b = barriers[0];
    if (b.count > 0 && b.expected < 0)
        fail("barrier divergence", b.loc, "a thread returned while %d wait in this __syncthreads", b.count);
    const Warp &w = state.warp[me->warp];
    for (uint32_t m = w.arrived; m != 0; m &= m - 1) {
        const Thread &t = threads[me->warp * 32 + __builtin_ctz(m)];
        if ((t.mask >> me->lane & 1) != 0)
            fail("exited lane", t.loc, "lane %d returned while lane %d waits for it in %s", me->lane, t.lane,
                 op_name(t.op));
    }
}

static void thread_main()
{
    take_back();
    for (;;) {
        self->op = RUNNING;
        kernel(kernel_args);
        Thread *me = self;
        finish_copies();
        check_exit(me);
        me->op = EXITED;
        state.warp[me->warp].live &= ~(1u << me->lane);
        state.n_live--;
        Thread *next = pick();
        if (next != nullptr && next->stack == nullptr) { /* it inherits the stack without a switch */
            next->stack = me->stack;
            me->stack = nullptr;
            self = next;
            threadIdx = next->index;
            continue;
        }
        given_back = me->stack;
        me->stack = nullptr;
        switch_to(me, next);
    }
}

static void deadlock()
{
    std::string text;
    for (int i = 0; i < state.n_threads; i++) {
        const Thread &t = threads[i];
        const bool known =
            i > 0 && t.op == threads[i - 1].op && (t.op == EXITED || same_place(t.loc, threads[i - 1].loc));
        if (known || text.size() > 600) continue;
        text += "; from thread " + std::to_string(i) + " on: " + op_name(t.op);
        if (t.op != EXITED) text += std::string(" at ") + t.loc.file + ":" + std::to_string(t.loc.line);
    }
    fail_from_scheduler("deadlock", "no thread can go on%s", text.c_str());
}

static void open_block(dim3 block)
{
    if (state.stacks == nullptr) {
        state.stacks = static_cast<unsigned char *>(map_memory(STACK * MAX_THREADS));
        for (int i = 0; i < MAX_THREADS; i++)
            mprotect(state.stacks + i * STACK, 4096, PROT_NONE);
    }
    given_back = nullptr;
    if (free_stacks.size() != MAX_THREADS) { /* the first block, or fibers were abandoned */
        free_stacks.clear();
        for (int i = MAX_THREADS - 1; i >= 0; i--)
            free_stacks.push_back(state.stacks + i * STACK);
    }
    memset(barriers, 0, sizeof barriers);
    memset(state.warp, 0, sizeof state.warp);
    state.n_threads = state.n_live = (int)(block.x * block.y * block.z);
    state.n_warps = (state.n_threads + 31) / 32;
    state.failed = false;
    ready_warps = 0;
    for (int i = 0; i < state.n_threads; i++) {
        Thread &t = threads[i];
        t.stack = nullptr;
        t.number = i;
        t.warp = i / 32;
        t.lane = i % 32;
        t.op = RUNNING;
        t.copies.clear();
        t.groups = 0;
        t.index = {(unsigned)i % block.x, (unsigned)i / block.x % block.y, (unsigned)i / (block.x * block.y)};
        Warp &w = state.warp[t.warp];
        w.full |= 1u << t.lane;
        w.live = w.full;
        w.clock = w.synced = 1;
        set_ready(t.warp, 1u << t.lane);
    }
    current_warp = config.order == REVERSE ? state.n_warps - 1 : 0;
}

bool run_block(uint64_t index, dim3 grid, dim3 block, void (*run)(void *), void *args)
{
    open_block(block);
    open_shared();
    if (config.check) open_check();
    kernel = run;
    kernel_args = args;
    gridDim = grid;
    blockDim = block;
    blockIdx = {(unsigned)(index % grid.x), (unsigned)(index / grid.x % grid.y), (unsigned)(index / grid.x / grid.y)};
    state.running = true;
    while (!state.failed && state.n_live > 0) {
        Thread *next = pick();
        if (next != nullptr)
            switch_to(nullptr, next);
        else
            deadlock();
        self = nullptr;
    }
    state.running = false;
    if (config.count) count_block();
    if (state.failed) free_stacks.clear();
    return !state.failed;
}

} /* namespace emu */
