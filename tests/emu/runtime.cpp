/* SPDX-License-Identifier: MIT */
/*
 * The runtime's side: launches, device memory, streams and events. Work on a stream runs when the host waits for it, never
 * before, so a missing wait gives wrong numbers every time. Memory starts as NaN. A kernel that fails leaves
 * cudaErrorLaunchFailure, whose text is the emulator's report, until cudaGetLastError fetches it. A stream that is captured
 * collects its work for a graph; calls that allocate or wait break a capture, as on a device.
 */
#include <sys/mman.h>
#include <time.h>

#include <cstdio>
#include <cstdlib>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <set>

#include "engine.h"

struct emu_graph {
    std::vector<std::function<void()>> work;
};
struct emu_graph_exec {
    std::vector<std::function<void()>> work;
};
struct emu_stream {
    std::deque<std::function<void()>> work;
    emu_graph *capture = nullptr; /* what its work goes into */
    bool broken = false;          /* its capture */
};
struct emu_event {
    bool done = true;
    emu_stream *stream = nullptr;
    double time = 0;
};

namespace
{

emu_stream legacy;
std::vector<emu_stream *> streams;
cudaError_t last_error = cudaSuccess;
std::map<const void *, int> allowed_shared; /* dynamic, where it was asked for more than 48 KiB */
std::set<const void *> large_kernels;       /* launched so */
uint64_t n_attributes_set = 0;
std::map<void *, size_t> memory; /* bytes as asked */
uint32_t next_serial = 2;        /* of blocks; 1 is the host's */
bool configured = false;

emu_stream *at(cudaStream_t stream)
{
    return stream != nullptr ? stream : &legacy;
}

void run_one(emu_stream *stream)
{
    const std::function<void()> task = std::move(stream->work.front());
    stream->work.pop_front();
    task();
}

void drain(emu_stream *stream)
{
    while (!stream->work.empty())
        run_one(stream);
}

void drain_all()
{
    drain(&legacy);
    for (emu_stream *s : streams)
        drain(s);
}

/* Of a call that no capture may meet: breaks those under way. */
cudaError_t breaks_capture()
{
    cudaError_t error = cudaSuccess;
    for (emu_stream *s : streams)
        if (s->capture != nullptr) {
            s->broken = true;
            error = cudaErrorStreamCaptureUnsupported;
        }
    return error;
}

void enqueue(cudaStream_t stream, std::function<void()> task)
{
    if (at(stream)->capture != nullptr) return at(stream)->capture->work.push_back(std::move(task));
    if (stream == nullptr) /* the legacy stream waits for all others */
        for (emu_stream *s : streams)
            legacy.work.push_back([s] { drain(s); });
    at(stream)->work.push_back(std::move(task));
}

void wait_for(emu_event *event)
{
    while (!event->done && !event->stream->work.empty())
        run_one(event->stream);
}

cudaError_t fail_with(cudaError_t error)
{
    return last_error = error;
}

/* An allocation ends where a page without access begins, as near as its alignment allows; another such page is before it. */
constexpr size_t PAGE = 4096, ALIGN = 256;

size_t rounded(size_t bytes, size_t to)
{
    return (bytes + to - 1) / to * to;
}

/* Blocks in the configured order: i of n. */
struct Sequence {
    uint64_t n, factor = 1, offset = 0;
    explicit Sequence(uint64_t blocks) : n(blocks)
    {
        if (emu::config.order != emu::RANDOM) return;
        offset = emu::next_random() % n;
        do
            factor = emu::next_random() % n + 1;
        while (std::gcd(factor, n) != 1);
    }
    uint64_t block(uint64_t i) const
    {
        if (emu::config.order == emu::REVERSE) return n - 1 - i;
        return (uint64_t)(((unsigned __int128)i * factor + offset) % n);
    }
};

/* Block i of a sample: the middle one, then wherever the gaps are large. */
uint64_t sampled(uint64_t i, uint64_t blocks)
{
    const double at = 0.5 + (double)i * 0.6180339887498949;
    return (uint64_t)((at - floor(at)) * (double)blocks);
}

} /* namespace */

namespace emu
{

void configure()
{
    configured = true;
    if (const char *order = getenv("EMU_ORDER")) {
        config.order = strcmp(order, "rev") == 0 ? REVERSE : strncmp(order, "rand", 4) == 0 ? RANDOM : FORWARD;
        if (config.order == RANDOM && order[4] == ':') config.seed = strtoull(order + 5, nullptr, 10);
    }
    if (const char *launch = getenv("EMU_LAUNCH")) config.drop = strcmp(launch, "drop") == 0;
    if (const char *races = getenv("EMU_RACES")) config.races = strcmp(races, "0") != 0;
    if (const char *check = getenv("EMU_CHECK")) config.check = config.check && strcmp(check, "0") != 0;
    if (getenv("EMU_COUNT") != nullptr) config.count = true;
    if (const char *bytes = getenv("EMU_SHARED")) config.shared_bytes = atoi(bytes);
    if (const char *bits = getenv("EMU_TC")) config.tensor_bits = atoi(bits);
    state.random = config.seed * 0x9E3779B97F4A7C15ull + 1;
}

int launch(const void *kernel, dim3 grid, dim3 block, size_t shared, void *stream, Arguments args)
{
    if (!configured) configure();
    const uint64_t threads_of = (uint64_t)block.x * block.y * block.z, blocks = (uint64_t)grid.x * grid.y * grid.z;
    const std::shared_ptr<void> held(args.at, args.drop);
    const size_t allowed = allowed_shared.count(kernel) != 0 ? (size_t)allowed_shared[kernel] : 48 << 10;
    if (threads_of == 0 || threads_of > MAX_THREADS || block.z > 64 || blocks == 0 || grid.x > INT32_MAX ||
        grid.y > 65535 || grid.z > 65535)
        return fail_with(cudaErrorInvalidConfiguration);
    if (shared > allowed) return fail_with(cudaErrorInvalidValue);
    if (shared > 48 << 10) large_kernels.insert(kernel);
    if (config.drop) return cudaSuccess;
    if (stream == nullptr && breaks_capture() != cudaSuccess) return cudaErrorStreamCaptureUnsupported;
    enqueue(static_cast<cudaStream_t>(stream), [=] {
        if (last_error == cudaErrorLaunchFailure) return;
        clear_report();
        const Sequence order(blocks);
        state.launch_serial = next_serial;
        state.dynamic_bytes = shared;
        state.args = held.get();
        state.args_size = args.size;
        const uint64_t n = config.sample != 0 && config.sample < blocks ? config.sample : blocks;
        const bool recorded = record_before(args, held.get());
        if (config.count) count_launch(kernel, blocks, (int)threads_of, shared);
        for (uint64_t i = 0; i < n; i++) {
            state.serial = next_serial++;
            if (!run_block(n < blocks ? sampled(i, blocks) : order.block(i), grid, block, args.run, held.get())) {
                fail_with(cudaErrorLaunchFailure);
                break;
            }
            if (n < blocks && config.count && counted_enough()) break;
        }
        if (config.count) count_launch_done();
        if (recorded) record_after(kernel, grid, block, shared);
    });
    return cudaSuccess;
}

void each_memory(void (*see)(void *at, size_t bytes))
{
    for (const auto &m : memory)
        see(m.first, m.second);
}

cudaError_t allow_shared(const void *kernel, int bytes)
{
    n_attributes_set++;
    if (bytes > config.shared_bytes) return fail_with(cudaErrorInvalidValue);
    allowed_shared[kernel] = bytes;
    return cudaSuccess;
}

} /* namespace emu */

extern "C" uint64_t emu_attributes_set(void)
{
    return n_attributes_set;
}

extern "C" uint64_t emu_large_kernels(void)
{
    return large_kernels.size();
}

/* ---------------------------------------------------------------- devices and memory */

cudaError_t cudaGetDeviceCount(int *count)
{
    *count = 1;
    return cudaSuccess;
}

cudaError_t cudaGetDevice(int *device)
{
    *device = 0;
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int device)
{
    return device == 0 ? cudaSuccess : fail_with(cudaErrorInvalidDevice);
}

cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute, int device)
{
    if (device != 0) return fail_with(cudaErrorInvalidDevice);
    if (!configured) emu::configure();
    switch (attribute) {
    case cudaDevAttrMultiProcessorCount:
        *value = emu::config.processors;
        break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
        *value = emu::config.shared_bytes;
        break;
    case cudaDevAttrComputeCapabilityMajor:
        *value = EMU_ARCH / 100;
        break;
    default:
        *value = EMU_ARCH / 10 % 10;
        break;
    }
    return cudaSuccess;
}

cudaError_t cudaMalloc(void **out, size_t bytes)
{
    if (const cudaError_t error = breaks_capture()) return error;
    if (!configured) emu::configure();
    if (bytes > (size_t)1 << 40) return fail_with(cudaErrorMemoryAllocation);
    const size_t pages = rounded(bytes, PAGE);
    unsigned char *base = static_cast<unsigned char *>(emu::map_memory(pages + 2 * PAGE));
    unsigned char *p = base + PAGE + pages - rounded(bytes, ALIGN);
    mprotect(base, PAGE, PROT_NONE);
    mprotect(base + PAGE + pages, PAGE, PROT_NONE);
    memset(p, 0xff, bytes);
    memory[p] = bytes;
    if (emu::config.check) emu::device_memory(p, bytes);
    if (emu::config.count) emu::counted_memory(p, bytes);
    *out = p;
    return cudaSuccess;
}

cudaError_t cudaFree(void *p)
{
    if (p == nullptr) return cudaSuccess;
    if (const cudaError_t error = breaks_capture()) return error;
    drain_all();
    const auto it = memory.find(p);
    if (it == memory.end()) return fail_with(cudaErrorInvalidValue);
    emu::device_memory_gone(static_cast<unsigned char *>(p));
    emu::counted_memory_gone(p);
    const size_t pages = rounded(it->second, PAGE);
    munmap(static_cast<unsigned char *>(p) + rounded(it->second, ALIGN) - pages - PAGE, pages + 2 * PAGE);
    memory.erase(it);
    return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind, cudaStream_t stream)
{
    if (stream == nullptr && breaks_capture() != cudaSuccess) return cudaErrorStreamCaptureUnsupported;
    enqueue(stream, [=] {
        if (bytes == 0) return;
        memmove(to, from, bytes);
        emu::host_wrote(to, bytes);
    });
    return cudaSuccess;
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, cudaMemcpyKind kind)
{
    const cudaError_t error = cudaMemcpyAsync(to, from, bytes, kind, nullptr);
    return error != cudaSuccess ? error : cudaStreamSynchronize(nullptr);
}

cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream)
{
    enqueue(stream, [=] {
        memset(to, value, bytes);
        emu::host_wrote(to, bytes);
    });
    return cudaSuccess;
}

/* ---------------------------------------------------------------- streams and events */

cudaError_t cudaStreamCreate(cudaStream_t *stream)
{
    streams.push_back(*stream = new emu_stream);
    return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    drain_all();
    for (size_t i = 0; i < streams.size(); i++)
        if (streams[i] == stream) streams.erase(streams.begin() + (std::ptrdiff_t)i);
    delete stream;
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    if (const cudaError_t error = breaks_capture()) return error;
    drain(at(stream));
    return last_error;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned)
{
    enqueue(stream, [event] { wait_for(event); });
    return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t *event)
{
    *event = new emu_event;
    return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    drain_all();
    delete event;
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    event->done = false;
    event->stream = at(stream);
    enqueue(stream, [event] {
        timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        event->time = (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
        event->done = true;
    });
    return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    if (const cudaError_t error = breaks_capture()) return error;
    wait_for(event);
    return last_error;
}

cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t from, cudaEvent_t to)
{
    *milliseconds = (float)(to->time - from->time);
    return cudaSuccess;
}

/* ---------------------------------------------------------------- graphs */

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode)
{
    if (stream == nullptr || stream->capture != nullptr) return cudaErrorStreamCaptureUnsupported;
    stream->capture = new emu_graph;
    stream->broken = false;
    return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph)
{
    *graph = nullptr;
    if (stream == nullptr || stream->capture == nullptr) return cudaErrorInvalidValue;
    if (stream->broken)
        delete stream->capture;
    else
        *graph = stream->capture;
    stream->capture = nullptr;
    return *graph != nullptr ? cudaSuccess : cudaErrorStreamCaptureInvalidated;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long)
{
    *exec = new emu_graph_exec{graph->work};
    return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream)
{
    for (const std::function<void()> &task : exec->work)
        enqueue(stream, task);
    return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
    delete exec;
    return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    delete graph;
    return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize()
{
    if (const cudaError_t error = breaks_capture()) return error;
    drain_all();
    return last_error;
}

cudaError_t cudaGetLastError()
{
    const cudaError_t error = last_error;
    last_error = cudaSuccess;
    return error;
}

const char *cudaGetErrorString(cudaError_t error)
{
    switch (error) {
    case cudaSuccess:
        return "no error";
    case cudaErrorInvalidValue:
        return "invalid argument";
    case cudaErrorMemoryAllocation:
        return "out of memory";
    case cudaErrorInvalidConfiguration:
        return "invalid configuration argument";
    case cudaErrorInvalidDevice:
        return "invalid device ordinal";
    case cudaErrorStreamCaptureUnsupported:
        return "operation not permitted when stream is capturing";
    case cudaErrorStreamCaptureInvalidated:
        return "operation failed due to a previous error during capture";
    default:
        return emu::report();
    }
}
