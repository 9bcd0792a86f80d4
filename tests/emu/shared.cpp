/* SPDX-License-Identifier: MIT */
/*
 * Shared memory in pieces with red zones between them, full of NaN at the start of a block; asynchronous copies, whose target
 * is NaN from their issue until they are waited for.
 */
#include "engine.h"

namespace emu
{

constexpr size_t RED_ZONE = 128, STATIC_PART = ARENA / 2; /* the dynamic part comes first */
static const char dynamic_key = 0;

std::vector<Piece> pieces;
static unsigned char *static_end, *dynamic_end;
static size_t static_bytes;

void open_shared()
{
    if (state.arena == nullptr) state.arena = static_cast<unsigned char *>(map_memory(ARENA));
    pieces.clear();
    dynamic_end = state.arena;
    static_end = state.arena + STATIC_PART;
    static_bytes = 0;
}

static Piece *find_piece(const void *key, size_t offset)
{
    for (Piece &p : pieces)
        if (p.key == key && p.offset == offset) return &p;
    return nullptr;
}

static void *new_piece(Piece piece, size_t align, unsigned char *&end, const unsigned char *limit)
{
    const uintptr_t at = ((uintptr_t)end + RED_ZONE + align - 1) / align * align;
    piece.at = reinterpret_cast<unsigned char *>(at);
    end = piece.at + piece.bytes;
    if (end + RED_ZONE > limit) fail("shared memory", Loc{nullptr, 0}, "%zu bytes more than there are", piece.bytes);
    memset(piece.at, 0xff, piece.bytes);
    if (config.check) piece_valid(piece.at, piece.bytes);
    pieces.push_back(piece);
    return piece.at;
}

void *static_shared(size_t bytes, size_t align, const void *key, const char *name)
{
    if (Piece *p = find_piece(key, 0)) return p->at;
    if ((static_bytes += bytes) > 48 << 10)
        fail("shared memory", Loc{nullptr, 0}, "%zu bytes of arrays, a kernel may have 48 KiB", static_bytes);
    return new_piece({key, 0, bytes, nullptr, name}, align < 16 ? 16 : align, static_end, state.arena + ARENA);
}

void *dynamic_shared(size_t bytes, size_t align, size_t *offset, Loc loc)
{
    const size_t from = (*offset + align - 1) / align * align;
    *offset = from + bytes;
    if (*offset > state.dynamic_bytes)
        fail("shared memory", loc, "byte %zu of the %zu that the launch gave", *offset, state.dynamic_bytes);
    if (Piece *p = find_piece(&dynamic_key, from)) {
        if (p->bytes != bytes) fail("shared memory", loc, "%zu bytes here, %zu for another thread", bytes, p->bytes);
        return p->at;
    }
    return new_piece({&dynamic_key, from, bytes, nullptr, "dynamic"}, align, dynamic_end, state.arena + STATIC_PART);
}

void misaligned_unless(const void *at, size_t align, Loc loc)
{
    if ((uintptr_t)at % align != 0) fail("misaligned", loc, "%p is no multiple of %zu", at, align);
}

void copy_async(void *to, const void *from, int bytes, int given, Loc loc)
{
    misaligned_unless(to, (size_t)bytes, loc);
    misaligned_unless(from, (size_t)bytes, loc);
    if (config.count) count_copy(to, from, bytes, given, loc);
    pause_counting(true);
    touch(to, (size_t)bytes, true, false, loc);
    pause_counting(false);
    memset(to, 0xff, (size_t)bytes);
    self->copies.push_back({to, from, bytes, given, self->groups, loc});
}

void copy_async_commit()
{
    self->groups++;
}

void copy_async_wait(int left)
{
    std::vector<Copy> &copies = self->copies;
    size_t n = 0;
    for (; n < copies.size() && copies[n].group < self->groups - left; n++) {
        const Copy &c = copies[n];
        pause_counting(true); /* counted when it was issued */
        if (c.given > 0) touch(c.from, (size_t)c.given, false, false, c.loc);
        touch(c.to, (size_t)c.bytes, true, false, c.loc);
        pause_counting(false);
        memset(c.to, 0, (size_t)c.bytes);
        memcpy(c.to, c.from, (size_t)c.given);
    }
    copies.erase(copies.begin(), copies.begin() + (std::ptrdiff_t)n);
}

void finish_copies()
{
    if (!self->copies.empty())
        fail("copy never waited for", self->copies[0].loc, "the thread returns with it in flight");
}

} /* namespace emu */
