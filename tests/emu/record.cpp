/* SPDX-License-Identifier: MIT */
/*
 * EMU_RECORD=FOLDER keeps launches for the interpreter of PTX (ptxsim): for each kernel the one with the fewest blocks, and of
 * those with few threads the one that changes the most bytes. A record is a line of JSON (kernel, grid, block, shared memory,
 * arguments in hexadecimal, allocations), then the bytes of all allocations before and after the launch.
 */
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>

#include "counters.h"
#include "engine.h"

namespace emu
{

namespace
{

constexpr size_t LEAST_CHANGE = 64, MOST_BYTES = 16 << 20;
constexpr uint64_t MOST_THREADS = 2048;

struct Best {
    size_t number = 0;            /* of the kernel; 0: no launch yet */
    uint64_t blocks = UINT64_MAX; /* of the smallest */
    size_t changed = 0;           /* by the largest */
};

std::map<const void *, Best> best;
std::vector<std::pair<unsigned char *, size_t>> allocations;
std::vector<unsigned char> before;
std::string arguments; /* as JSON: "00ff", "01" */

const char *folder()
{
    static const char *const name = getenv("EMU_RECORD");
    return name;
}

size_t take_memory()
{
    allocations.clear();
    each_memory([](void *at, size_t bytes) { allocations.push_back({static_cast<unsigned char *>(at), bytes}); });
    size_t sum = 0;
    for (const auto &a : allocations)
        sum += a.second;
    return sum;
}

void write(const void *kernel, size_t number, const char *which, dim3 grid, dim3 block, size_t shared)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%d-%zu.%s", folder(), (int)getpid(), number, which);
    FILE *file = fopen(path, "wb");
    if (file == nullptr) return;
    fprintf(file, "{\"kernel\": \"%s\", \"grid\": [%u, %u, %u], \"block\": [%u, %u, %u], \"shared\": %zu, ",
            kernel_signature(kernel).c_str(), grid.x, grid.y, grid.z, block.x, block.y, block.z, shared);
    fprintf(file, "\"arguments\": [%s], \"memory\": [", arguments.c_str());
    for (size_t i = 0; i < allocations.size(); i++)
        fprintf(file, "%s[%zu, %zu]", i == 0 ? "" : ", ", (size_t)allocations[i].first, allocations[i].second);
    fprintf(file, "]}\n");
    fwrite(before.data(), 1, before.size(), file);
    for (const auto &a : allocations)
        fwrite(a.first, 1, a.second, file);
    fclose(file);
}

size_t changed_bytes()
{
    size_t n = 0, at = 0;
    for (const auto &a : allocations)
        for (size_t i = 0; i < a.second; i++)
            n += a.first[i] != before[at++];
    return n;
}

} /* namespace */

bool record_before(const Arguments &args, void *at)
{
    if (folder() == nullptr || take_memory() > MOST_BYTES) return false;
    before.clear();
    for (const auto &a : allocations)
        before.insert(before.end(), a.first, a.first + a.second);
    arguments.clear();
    args.list(at, [](const void *argument, size_t bytes) {
        char hex[3];
        arguments += arguments.empty() ? "\"" : ", \"";
        for (size_t i = 0; i < bytes; i++) {
            snprintf(hex, sizeof hex, "%02x", static_cast<const unsigned char *>(argument)[i]);
            arguments += hex;
        }
        arguments += '"';
    });
    return true;
}

void record_after(const void *kernel, dim3 grid, dim3 block, size_t shared)
{
    Best &b = best[kernel];
    if (b.number == 0) b.number = best.size();
    const uint64_t blocks = (uint64_t)grid.x * grid.y * grid.z, n = blocks * block.x * block.y * block.z;
    const bool may_be_large = n <= MOST_THREADS;
    if (blocks >= b.blocks && !may_be_large) return;
    const size_t changed = changed_bytes();
    if (changed < LEAST_CHANGE) return;
    if (blocks < b.blocks) {
        b.blocks = blocks;
        write(kernel, b.number, "small", grid, block, shared);
    }
    if (may_be_large && changed > b.changed) {
        b.changed = changed;
        write(kernel, b.number, "large", grid, block, shared);
    }
}

} /* namespace emu */
