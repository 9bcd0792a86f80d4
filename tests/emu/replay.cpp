/* SPDX-License-Identifier: MIT */
/* What seqmix-check --replay records calls with (tests/check/recorder.h): the capture of a stream. */
#include "emu.h"
#include "recorder.h"

namespace
{

uint64_t attributes_set;

void *begin()
{
    cudaStream_t stream = nullptr;
    attributes_set = emu_attributes_set();
    (void)cudaStreamCreate(&stream);
    (void)cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
    return stream;
}

void *end(void *stream)
{
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t recorded = nullptr;
    if (cudaStreamEndCapture(static_cast<cudaStream_t>(stream), &graph) != cudaSuccess) return nullptr;
    if (emu_attributes_set() != attributes_set) return nullptr;
    (void)cudaGraphInstantiate(&recorded, graph, 0);
    (void)cudaGraphDestroy(graph);
    return recorded;
}

bool run(void *stream, void *recorded)
{
    const cudaStream_t s = static_cast<cudaStream_t>(stream);
    return cudaGraphLaunch(static_cast<cudaGraphExec_t>(recorded), s) == cudaSuccess &&
           cudaStreamSynchronize(s) == cudaSuccess;
}

void close(void *stream, void *recorded)
{
    if (recorded != nullptr) (void)cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(recorded));
    (void)cudaStreamDestroy(static_cast<cudaStream_t>(stream));
}

const struct check_recorder recorder = {begin, end, run, close};
const bool set = (::check_recorder = &recorder) != nullptr;

} /* namespace */
