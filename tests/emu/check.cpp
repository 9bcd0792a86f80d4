/* SPDX-License-Identifier: MIT */
/*
 * Every load and store of an instrumented kernel: bounds, alignment, foreign pointers, bytes never written, and order. A byte
 * remembers its last write and one read; time is a clock per warp, joined by barriers (vector clocks) and, among the lanes of
 * one warp, by __syncwarp. Blocks of one launch are never ordered.
 */
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <map>
#include <string>

#include "engine.h"

namespace emu
{

constexpr uint32_t ATOMIC = 0x80000000u, BY_HOST = 1;

struct Cell {                         /* of one byte */
    uint32_t writer, reader;          /* serial of the block, with ATOMIC */
    uint32_t write_time, read_time;   /* thread << 22 | its warp's clock */
    uint32_t write_place, read_place; /* see encode() */
};

struct Memory { /* one allocation */
    unsigned char *at;
    size_t bytes;
    Cell *cells;
};

static std::map<uintptr_t, Memory> memories;
static const Memory *recent;
static Cell *shared_cells;
static unsigned char *shared_valid;
static std::vector<std::pair<uintptr_t, uintptr_t>> images; /* code and globals: not watched */

static int add_image(dl_phdr_info *info, size_t, void *)
{
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_LOAD) {
            const uintptr_t at = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
            images.push_back({at, at + info->dlpi_phdr[i].p_memsz});
        }
    return 0;
}

static uintptr_t image_base()
{
    static uintptr_t base = 0;
    if (base == 0)
        dl_iterate_phdr(
            [](dl_phdr_info *info, size_t, void *) {
                base = info->dlpi_addr;
                return 1;
            },
            nullptr);
    return base;
}

void open_check()
{
    if (shared_cells == nullptr) {
        shared_cells = static_cast<Cell *>(map_memory(sizeof(Cell) * ARENA));
        shared_valid = static_cast<unsigned char *>(map_memory(ARENA));
        dl_iterate_phdr(add_image, nullptr);
    }
    memset(shared_valid, 0, ARENA);
}

void piece_valid(const unsigned char *at, size_t bytes)
{
    memset(shared_valid + (at - state.arena), 1, bytes);
}

void device_memory(unsigned char *at, size_t bytes)
{
    recent = nullptr;
    memories[(uintptr_t)at] = {at, bytes, static_cast<Cell *>(map_memory(sizeof(Cell) * (bytes + 1)))};
}

void device_memory_gone(unsigned char *at)
{
    recent = nullptr;
    const auto it = memories.find((uintptr_t)at);
    if (it == memories.end()) return;
    munmap(it->second.cells, sizeof(Cell) * (it->second.bytes + 1));
    memories.erase(it);
}

/* The allocation that `at` is in, or at most NEAR bytes behind. */
static const Memory *find_memory(uintptr_t at)
{
    constexpr size_t NEAR = 4096;
    if (recent != nullptr && at - (uintptr_t)recent->at < recent->bytes) return recent;
    auto it = memories.upper_bound(at);
    if (it == memories.begin()) return nullptr;
    --it;
    return at - it->first < it->second.bytes + NEAR ? recent = &it->second : nullptr;
}

void host_wrote(const void *at, size_t bytes)
{
    const Memory *m = find_memory((uintptr_t)at);
    if (m == nullptr || (uintptr_t)at - (uintptr_t)m->at + bytes > m->bytes) return;
    Cell *c = m->cells + ((uintptr_t)at - (uintptr_t)m->at);
    for (size_t i = 0; i < bytes; i++)
        c[i] = Cell{BY_HOST, 0, 0, 0, 0, 0};
}

/* ---------------------------------------------------------------- order */

void warps_met(const uint32_t *lanes)
{
    uint32_t joined[MAX_WARPS] = {};
    for (int w = 0; w < state.n_warps; w++) {
        const Warp &warp = state.warp[w];
        if (lanes[w] == 0) continue;
        for (int k = 0; k < state.n_warps; k++)
            if (warp.seen[k] > joined[k]) joined[k] = warp.seen[k];
        if (warp.clock + 1 > joined[w]) joined[w] = warp.clock + 1;
    }
    for (int w = 0; w < state.n_warps; w++)
        if (lanes[w] != 0) {
            memcpy(state.warp[w].seen, joined, sizeof joined);
            state.warp[w].synced = ++state.warp[w].clock;
        }
}

/* Whether an access of this block at `time` comes before what the running thread does now. */
static bool before_now(uint32_t time)
{
    const int thread = (int)(time >> 22), warp = thread / 32;
    const uint32_t clock = time & 0x3fffff;
    if (thread == self->number) return true;
    return warp == self->warp ? clock < state.warp[warp].synced : clock < state.warp[self->warp].seen[warp];
}

/* ---------------------------------------------------------------- places in the source */

static uint32_t encode(Loc loc, const void *pc)
{
    return loc.file != nullptr ? ATOMIC | (uint32_t)loc.line : (uint32_t)((uintptr_t)pc - image_base());
}

static std::string place(uint32_t code)
{
    if ((code & ATOMIC) != 0) return "line " + std::to_string(code & ~ATOMIC);
    char command[128], line[512] = "?";
    snprintf(command, sizeof command, "addr2line -e /proc/%d/exe 0x%x", (int)getpid(), code - 1);
    if (FILE *pipe = popen(command, "r")) {
        if (fgets(line, sizeof line, pipe) != nullptr) line[strcspn(line, "\n (")] = '\0';
        pclose(pipe);
    }
    return line;
}

/* ---------------------------------------------------------------- the check of one access */

struct Access {
    uintptr_t at;
    size_t bytes;
    bool write, atomic, shared;
    uint32_t here, time;
};

static std::string described(const Access &a)
{
    return std::string(a.write ? "write" : "read") + " of " + std::to_string(a.bytes) + " bytes at " + place(a.here);
}

static Cell *shared_cell(const Access &a)
{
    const size_t offset = a.at - (uintptr_t)state.arena;
    for (size_t i = 0; i < a.bytes; i++)
        if (offset + i >= ARENA || shared_valid[offset + i] == 0) {
            const Piece *near = nullptr;
            for (const Piece &p : pieces)
                if ((uintptr_t)p.at <= a.at && (near == nullptr || p.at > near->at)) near = &p;
            fail("shared out of bounds", Loc{nullptr, 0}, "%s, byte %td of %s, which has %zu", described(a).c_str(),
                 near != nullptr ? (ptrdiff_t)(a.at - (uintptr_t)near->at) : 0,
                 near != nullptr ? near->name : "nothing", near != nullptr ? near->bytes : 0);
        }
    return shared_cells + offset;
}

/* NULL: not watched. */
static Cell *global_cell(const Access &a)
{
    const Memory *m = find_memory(a.at);
    if (m != nullptr) {
        const size_t offset = a.at - (uintptr_t)m->at;
        if (offset + a.bytes > m->bytes)
            fail("global out of bounds", Loc{nullptr, 0}, "%s, byte %zu of %zu", described(a).c_str(), offset,
                 m->bytes);
        return m->cells + offset;
    }
    for (const auto &image : images)
        if (a.at >= image.first && a.at < image.second) return nullptr;
    fail("invalid address", Loc{nullptr, 0}, "%s: %p is in no memory of the device", described(a).c_str(),
         reinterpret_cast<void *>(a.at));
}

/* The byte against the earlier access by block `serial` at `time`. */
static void check_order(const Access &a, uint32_t serial, uint32_t time, uint32_t at, const char *earlier)
{
    const uint32_t block = serial & ~ATOMIC;
    if (!config.races) return;
    if (a.atomic && (serial & ATOMIC) != 0) return;
    if (block == state.serial) {
        if (!before_now(time))
            fail("race", Loc{nullptr, 0}, "%s memory: %s is not ordered after thread %u's %s at %s",
                 a.shared ? "shared" : "global", described(a).c_str(), time >> 22, earlier, place(at).c_str());
    } else if (!a.shared && block >= state.launch_serial) {
        fail("race between blocks", Loc{nullptr, 0}, "%s; another block's %s at %s", described(a).c_str(), earlier,
             place(at).c_str());
    }
}

static void check_byte(const Access &a, Cell *c)
{
    const bool reads = !a.write || a.atomic;
    const uint32_t mark = state.serial | (a.atomic ? ATOMIC : 0);
    if (reads && (a.shared ? (c->writer & ~ATOMIC) != state.serial : c->writer == 0))
        fail("uninitialised read", Loc{nullptr, 0}, "%s memory: %s", a.shared ? "shared" : "global",
             described(a).c_str());
    check_order(a, c->writer, c->write_time, c->write_place, "write");
    if (a.write) {
        check_order(a, c->reader, c->read_time, c->read_place, "read");
        c->writer = mark;
        c->write_time = a.time;
        c->write_place = a.here;
    }
    /* of two readers that are not ordered the earlier stays: a later write conflicts with it */
    if (reads && ((c->reader & ~ATOMIC) != state.serial || before_now(c->read_time))) {
        c->reader = mark;
        c->read_time = a.time;
        c->read_place = a.here;
    }
}

void access(uintptr_t at, size_t bytes, bool write, bool atomic, Loc loc, const void *pc)
{
    if (self == nullptr || !(config.check || config.count)) return;
    if (at - (uintptr_t)state.stacks < STACK * MAX_THREADS || at - (uintptr_t)state.args < state.args_size) return;
    if (config.count) count_access(at, bytes, write, atomic, loc, pc);
    if (!config.check) return;
    const bool shared = at - (uintptr_t)state.arena < ARENA;
    const uint32_t time = (uint32_t)self->number << 22 | (state.warp[self->warp].clock & 0x3fffff);
    const Access a = {at, bytes, write, atomic, shared, encode(loc, pc), time};
    Cell *cell = shared ? shared_cell(a) : global_cell(a);
    if (cell == nullptr) return;
    if ((bytes & (bytes - 1)) == 0 && at % bytes != 0)
        fail("misaligned", Loc{nullptr, 0}, "%s, address %p", described(a).c_str(), reinterpret_cast<void *>(at));
    for (size_t i = 0; i < bytes; i++)
        check_byte(a, cell + i);
}

void touch(const void *at, size_t bytes, bool write, bool atomic, Loc loc)
{
    access((uintptr_t)at, bytes, write, atomic, loc, nullptr);
}

} /* namespace emu */
