/* SPDX-License-Identifier: MIT */
/*
 * What a launch costs, as far as it can be counted without a GPU: sectors of global memory and bank conflicts by request, mma,
 * special functions, fused multiply-adds, shuffles, barriers. Lanes run one after another here, so accesses are put together
 * again: the n-th time that each lane of a warp passes one place since its lanes last met is one request.
 *
 * Rules. Global: a request moves the 32-byte sectors it touches. Shared: 32 banks of 4 bytes; lanes go in phases of 32, 16 or 8
 * for accesses of up to 4, 8 or 16 bytes, and a phase takes as many wavefronts as its worst bank has different words.
 * EMU_COUNT=1 prints the counts of each launch to standard error, EMU_COUNT=2 the lines of the source that waste most besides.
 */
#include "counters.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <unordered_map>

#include "engine.h"

namespace emu
{

uint64_t math_counts[N_MATH];

namespace
{

constexpr uintptr_t SECTOR = 32;

struct Request {
    uintptr_t at[32];
    uint32_t mask;
};

/* The requests of one warp at one place, as far as its lanes are not through. */
struct Pending {
    uint32_t passed[32];
    size_t first; /* number of the first open one */
    std::vector<Request> open;
    bool listed;
};

struct Place {
    Loc loc;
    const void *pc;
    size_t bytes;
    bool write, shared;
    uint64_t requests, cost, ideal; /* wavefronts or sectors */
    Pending warp[MAX_WARPS];
};

struct Memory {
    uintptr_t at;
    size_t bytes;
    uint32_t *read_by, *written_by; /* by sector: serial of the last block */
    uint64_t sectors_read, sectors_written;
};

std::unordered_map<uintptr_t, Place *> places;
std::vector<Place *> met_later[MAX_WARPS]; /* places with requests since the warp's lanes last met */
std::map<uintptr_t, Memory> memories;
Memory *recent;
std::vector<LaunchCounts> launches;
LaunchCounts now;
bool paused;

Memory *memory_of(uintptr_t at)
{
    if (recent != nullptr && at - recent->at < recent->bytes) return recent;
    auto it = memories.upper_bound(at);
    if (it == memories.begin()) return nullptr;
    --it;
    return at - it->first < it->second.bytes ? recent = &it->second : nullptr;
}

/* ---------------------------------------------------------------- one request */

void mark(uintptr_t sector, bool write)
{
    Memory *m = memory_of(sector * SECTOR);
    if (m == nullptr) return;
    uint32_t *last = (write ? m->written_by : m->read_by) + (sector - m->at / SECTOR);
    if (*last == state.serial) return;
    *last = state.serial;
    (write ? m->sectors_written : m->sectors_read)++;
}

void close_global(Place *p, const Request &r)
{
    uintptr_t sectors[32 * 2 + 1], bytes = 0;
    size_t n = 0;
    for (uint32_t m = r.mask; m != 0; m &= m - 1) {
        const uintptr_t at = r.at[__builtin_ctz(m)];
        bytes += p->bytes;
        for (uintptr_t s = at / SECTOR; s <= (at + p->bytes - 1) / SECTOR; s++) {
            if (n > 0 && sectors[n - 1] == s) continue;
            sectors[n++] = s;
        }
    }
    std::sort(sectors, sectors + n);
    n = (size_t)(std::unique(sectors, sectors + n) - sectors);
    for (size_t i = 0; i < n; i++)
        mark(sectors[i], p->write);
    const uint64_t ideal = std::min<uint64_t>(n, (bytes + SECTOR - 1) / SECTOR);
    now.counts.global_requests++;
    now.counts.global_bytes += bytes;
    now.counts.sectors += n;
    now.counts.ideal_sectors += ideal;
    p->cost += n;
    p->ideal += ideal;
}

/* Of the lanes in `mask`: the most different words that one bank has, and how many words there are. */
unsigned worst_bank(const Place *p, const Request &r, uint32_t mask, unsigned *n_words)
{
    uintptr_t words[32 * 4];
    unsigned n = 0, in_bank[32] = {}, worst = 0;
    for (uint32_t m = mask; m != 0; m &= m - 1) {
        const uintptr_t at = r.at[__builtin_ctz(m)];
        for (uintptr_t w = at / 4; w <= (at + p->bytes - 1) / 4 && n < 32 * 4; w++)
            words[n++] = w;
    }
    std::sort(words, words + n);
    n = (unsigned)(std::unique(words, words + n) - words);
    for (unsigned i = 0; i < n; i++)
        worst = std::max(worst, ++in_bank[words[i] % 32]);
    *n_words = n;
    return worst;
}

void close_shared(Place *p, const Request &r)
{
    const unsigned phases = p->bytes > 8 ? 4 : p->bytes > 4 ? 2 : 1, lanes = 32 / phases;
    unsigned n_words, cost = worst_bank(p, r, r.mask, &n_words);
    const unsigned ideal = (n_words + 31) / 32;
    if (phases > 1 && cost > 1) {
        unsigned in_phase;
        cost = 0;
        for (unsigned i = 0; i < phases; i++)
            cost += worst_bank(p, r, r.mask & (uint32_t)(((1ull << lanes) - 1) << i * lanes), &in_phase);
    }
    now.counts.shared_requests++;
    now.counts.wavefronts += cost;
    now.counts.ideal_wavefronts += ideal;
    p->cost += cost;
    p->ideal += ideal;
}

void close(Place *p, const Request &r)
{
    p->requests++;
    if (p->shared)
        close_shared(p, r);
    else
        close_global(p, r);
}

/* The lanes of the warp are at one place: what is open is complete. */
void lanes_met(int warp)
{
    for (Place *p : met_later[warp]) {
        Pending &w = p->warp[warp];
        for (const Request &r : w.open)
            if (r.mask != 0) close(p, r);
        w.open.clear();
        w.first = 0;
        memset(w.passed, 0, sizeof w.passed);
        w.listed = false;
    }
    met_later[warp].clear();
}

void add_access(uintptr_t key, Loc loc, const void *pc, uintptr_t at, size_t bytes, bool write, bool shared)
{
    Place *&p = places[(key * 32 + bytes) * 4 + write * 2 + shared];
    if (p == nullptr) p = new Place{loc, pc, bytes, write, shared, 0, 0, 0, {}};
    Pending &w = p->warp[self->warp];
    if (!w.listed) met_later[self->warp].push_back(p);
    w.listed = true;
    const size_t index = w.passed[self->lane]++ - w.first;
    if (index >= w.open.size()) w.open.resize(index + 1, Request{{}, 0});
    Request &r = w.open[index];
    r.at[self->lane] = at;
    r.mask |= 1u << self->lane;
    if (r.mask != state.warp[self->warp].full) return;
    close(p, r);
    r.mask = 0;
    if (index + 1 == w.open.size()) { /* the last lane: the earlier ones are full, or wait for the lanes to meet */
        for (const Request &earlier : w.open)
            if (earlier.mask != 0) close(p, earlier);
        w.first += w.open.size();
        w.open.clear();
    }
}

} /* namespace */

/* ---------------------------------------------------------------- what the engine tells */

void count_access(uintptr_t at, size_t bytes, bool write, bool atomic, Loc loc, const void *pc)
{
    const bool shared = at - (uintptr_t)state.arena < ARENA;
    if (paused || (!shared && memory_of(at) == nullptr)) return;
    const uintptr_t key = pc != nullptr ? (uintptr_t)pc : (uintptr_t)loc.file * 8192 + (uintptr_t)loc.line;
    add_access(key, loc, pc, at, bytes, write, shared);
    now.counts.atomics += atomic;
}

void count_copy(const void *to, const void *from, int bytes, int given, Loc loc)
{
    count_access((uintptr_t)to, (size_t)bytes, true, false, loc, nullptr);
    if (given > 0) count_access((uintptr_t)from, (size_t)given, false, false, loc, nullptr);
}

void pause_counting(bool pause)
{
    paused = pause;
}

void count_collective(int warp, Op op, bool whole)
{
    if (whole) lanes_met(warp);
    now.counts.shuffles += op == SHFL;
    now.counts.votes += op == VOTE;
}

void count_mma(bool half_depth)
{
    (half_depth ? now.counts.mma_8 : now.counts.mma_16)++;
}

void count_barrier(const uint32_t *lanes)
{
    for (int w = 0; w < state.n_warps; w++)
        if (lanes[w] == state.warp[w].full) {
            lanes_met(w);
            now.counts.barriers++;
        }
}

void count_block()
{
    for (int w = 0; w < MAX_WARPS; w++)
        lanes_met(w);
    uint64_t fixed = 0;
    for (const Piece &p : pieces)
        if (strcmp(p.name, "dynamic") != 0) fixed += p.bytes;
    now.static_shared = std::max(now.static_shared, fixed);
    now.blocks_run++;
}

void counted_memory(void *at, size_t bytes)
{
    recent = nullptr;
    const size_t sectors = bytes / SECTOR + 2;
    memories[(uintptr_t)at] = {(uintptr_t)at,
                               bytes,
                               static_cast<uint32_t *>(map_memory(sectors * sizeof(uint32_t))),
                               static_cast<uint32_t *>(map_memory(sectors * sizeof(uint32_t))),
                               0,
                               0};
}

void counted_memory_gone(void *at)
{
    recent = nullptr;
    const auto it = memories.find((uintptr_t)at);
    if (it == memories.end()) return;
    const size_t bytes = (it->second.bytes / SECTOR + 2) * sizeof(uint32_t);
    munmap(it->second.read_by, bytes);
    munmap(it->second.written_by, bytes);
    memories.erase(it);
}

void count_launch(const void *kernel, uint64_t blocks, int n_threads, size_t dynamic_shared)
{
    now = LaunchCounts{kernel, blocks, 0, n_threads, 0, dynamic_shared, {}};
    memset(math_counts, 0, sizeof math_counts);
    for (auto &entry : places)
        entry.second->requests = entry.second->cost = entry.second->ideal = 0;
    for (auto &entry : memories)
        entry.second.sectors_read = entry.second.sectors_written = 0;
}

/* ---------------------------------------------------------------- results */

/* The first line that addr2line has to say of a place in the running program. */
static std::string in_program(const char *option, size_t at)
{
    char command[128], line[1024] = "?";
    snprintf(command, sizeof command, "addr2line %s -C -e /proc/%d/exe %#zx", option, (int)getpid(), at);
    if (FILE *pipe = popen(command, "r")) {
        if (fgets(line, sizeof line, pipe) == nullptr) line[0] = '\0';
        pclose(pipe);
    }
    line[strcspn(line, "\n")] = '\0';
    return line;
}

std::string kernel_signature(const void *kernel)
{
    Dl_info info;
    return dladdr(kernel, &info) != 0 ? in_program("-f", (size_t)kernel - (size_t)info.dli_fbase) : "?";
}

std::string kernel_name(const void *kernel)
{
    static std::map<const void *, std::string> known;
    std::string &name = known[kernel];
    if (!name.empty()) return name;
    std::string line = kernel_signature(kernel);
    for (const char *const noise : {"(anonymous namespace)::", "(int)", "(bool)"})
        for (size_t at; (at = line.find(noise)) != std::string::npos;)
            line.erase(at, strlen(noise));
    int depth = 0;
    for (const char *c = line.c_str() + (line.compare(0, 5, "void ") == 0 ? 5 : 0); *c != '\0'; c++) {
        depth += (*c == '<') - (*c == '>');
        if (*c == '(' && depth == 0) break;
        if (*c != ' ') name += *c;
    }
    return name;
}

static std::string place_name(const Place &p)
{
    if (p.loc.file != nullptr) return std::string(p.loc.file) + ":" + std::to_string(p.loc.line);
    Dl_info info;
    if (dladdr(p.pc, &info) == 0) return "?";
    const std::string line = in_program("-s", (size_t)p.pc - 1 - (size_t)info.dli_fbase);
    return line.substr(0, line.find(' '));
}

static void print_places()
{
    std::vector<const Place *> sorted;
    for (const auto &entry : places)
        if (entry.second->cost > entry.second->ideal) sorted.push_back(entry.second);
    std::sort(sorted.begin(), sorted.end(),
              [](const Place *a, const Place *b) { return a->cost - a->ideal > b->cost - b->ideal; });
    if (sorted.size() > 12) sorted.resize(12);
    for (const Place *p : sorted)
        fprintf(stderr, "  %-6s %-5s of %2zu bytes  %8llu requests  %9llu %s, %llu at best  %s\n",
                p->shared ? "shared" : "global", p->write ? "write" : "read", p->bytes, (unsigned long long)p->requests,
                (unsigned long long)p->cost, p->shared ? "wavefronts" : "sectors", (unsigned long long)p->ideal,
                place_name(*p).c_str());
}

static void print_launch(const LaunchCounts &l, int detail)
{
    const Counts &c = l.counts;
#define U(x) ((unsigned long long)(x))
    fprintf(stderr, "count %s: %llu blocks of %d threads (%llu counted), shared %llu + %llu\n",
            kernel_name(l.kernel).c_str(), U(l.blocks), l.threads, U(l.blocks_run), U(l.static_shared),
            U(l.dynamic_shared));
    fprintf(stderr,
            "  global %llu requests, %llu sectors (%llu at best), %llu bytes fetched, %llu stored\n"
            "  shared %llu requests, %llu wavefronts (%llu at best), %llu shuffles, %llu barriers\n"
            "  mma %llu + %llu, exp %llu, root %llu, fmaf %llu\n",
            U(c.global_requests), U(c.sectors), U(c.ideal_sectors), U(c.fetched), U(c.stored), U(c.shared_requests),
            U(c.wavefronts), U(c.ideal_wavefronts), U(c.shuffles), U(c.barriers), U(c.mma_16), U(c.mma_8), U(c.exps),
            U(c.roots), U(c.fmas));
#undef U
    if (detail > 1) print_places();
}

bool counted_enough()
{
    constexpr uint64_t ENOUGH = 400000;
    const Counts &c = now.counts;
    return c.global_requests + c.shared_requests + c.shuffles + 8 * c.mma_16 + 8 * c.mma_8 > ENOUGH;
}

void count_launch_done()
{
    static const char *const wanted = getenv("EMU_COUNT");
    if (now.blocks_run == 0) return;
    const double scale = (double)now.blocks / (double)now.blocks_run;
    Counts &c = now.counts;
    c.exps = math_counts[MATH_EXP];
    c.roots = math_counts[MATH_ROOT];
    c.fmas = math_counts[MATH_FMA];
    uint64_t *const all = reinterpret_cast<uint64_t *>(&c);
    for (size_t i = 0; i < sizeof c / sizeof *all; i++)
        all[i] = (uint64_t)((double)all[i] * scale + 0.5);
    for (const auto &entry : memories) {
        const Memory &m = entry.second;
        const double whole = (double)((m.bytes + SECTOR - 1) / SECTOR * SECTOR);
        const double read = (double)(m.sectors_read * SECTOR) * scale,
                     written = (double)(m.sectors_written * SECTOR) * scale;
        c.between += (uint64_t)(read + written);
        c.fetched += (uint64_t)std::min(read, whole);
        c.stored += (uint64_t)std::min(written, whole);
    }
    launches.push_back(now);
    if (wanted != nullptr) print_launch(now, atoi(wanted));
}

std::vector<LaunchCounts> take_counts()
{
    std::vector<LaunchCounts> taken;
    taken.swap(launches);
    return taken;
}

} /* namespace emu */
