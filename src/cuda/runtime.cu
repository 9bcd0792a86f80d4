/* SPDX-License-Identifier: MIT */
/* The runtime's calls behind a C interface, so that the rest of the backend is C and sees no header of CUDA. */
#include "cuda.h"
#include "device.cuh"

extern "C" const char *seqmix_cuda_error_text(int error)
{
    return cudaGetErrorString(static_cast<cudaError_t>(error));
}

extern "C" int seqmix_cuda_capability(int device, int *capability)
{
    int count = 0, major = 0, minor = 0;
    cudaError_t error = cudaGetDeviceCount(&count);
    if (error == cudaSuccess && device < 0) error = cudaGetDevice(&device);
    if (error == cudaSuccess) error = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
    if (error == cudaSuccess) error = cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device);
    *capability = major * 10 + minor;
    if (error != cudaSuccess) (void)cudaGetLastError();
    return error;
}

extern "C" int seqmix_cuda_facts(int *device, int *processors, int *shared_bytes)
{
    cudaError_t error = cudaSuccess;
    if (*device < 0) error = cudaGetDevice(device);
    if (error == cudaSuccess) error = cudaDeviceGetAttribute(processors, cudaDevAttrMultiProcessorCount, *device);
    if (error == cudaSuccess)
        error = cudaDeviceGetAttribute(shared_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, *device);
    return error;
}

extern "C" int seqmix_cuda_enter(int device, int *previous)
{
    if (device < 0) return cudaSuccess;
    const cudaError_t error = cudaGetDevice(previous);
    return error == cudaSuccess && *previous != device ? cudaSetDevice(device) : error;
}

extern "C" void seqmix_cuda_leave(int device, int previous)
{
    if (device >= 0 && previous != device) (void)cudaSetDevice(previous);
}

extern "C" int seqmix_cuda_alloc(size_t bytes, void **out)
{
    const cudaError_t error = cudaMalloc(out, bytes > 0 ? bytes : 1);
    if (error != cudaSuccess) (void)cudaGetLastError();
    return error;
}

extern "C" void seqmix_cuda_release(void *memory)
{
    (void)cudaFree(memory);
}

extern "C" int seqmix_cuda_copy(void *to, const void *from, size_t bytes, void *stream)
{
    const cudaError_t error = cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, static_cast<cudaStream_t>(stream));
    return error == cudaSuccess ? seqmix_cuda_sync(stream) : error;
}

extern "C" int seqmix_cuda_sync(void *stream)
{
    const cudaError_t error = cudaStreamSynchronize(static_cast<cudaStream_t>(stream));
    if (error != cudaSuccess) (void)cudaGetLastError();
    return error;
}

extern "C" int seqmix_cuda_elapsed(void **mark, void *stream, float *milliseconds)
{
    cudaEvent_t now = nullptr;
    *milliseconds = 0;
    cudaError_t error = cudaEventCreate(&now);
    if (error != cudaSuccess) return error;
    error = cudaEventRecord(now, static_cast<cudaStream_t>(stream));
    if (error == cudaSuccess) error = cudaEventSynchronize(now);
    if (error == cudaSuccess && *mark != nullptr)
        error = cudaEventElapsedTime(milliseconds, static_cast<cudaEvent_t>(*mark), now);
    seqmix_cuda_forget(*mark);
    *mark = now;
    return error;
}

extern "C" void seqmix_cuda_forget(void *mark)
{
    if (mark != nullptr) (void)cudaEventDestroy(static_cast<cudaEvent_t>(mark));
}
