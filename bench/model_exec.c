/* SPDX-License-Identifier: MIT */
/* --model in seqmix-bench itself: the program that can count lies beside it in a build tree. */
#define _POSIX_C_SOURCE 200809L

#include "model.h"

#include <string.h>
#include <unistd.h>

int seqmix_bench_model(const struct seqmix_bench_options *o, char **argv)
{
    char path[4096];
    const ssize_t length = readlink("/proc/self/exe", path, sizeof path - 64);
    path[length > 0 ? length : 0] = '\0';
    char *slash = strrchr(path, '/');
    if (slash != NULL) {
        snprintf(slash + 1, 64, "seqmix-bench-emulated");
        execv(path, argv);
    }
    fprintf(stderr,
            "seqmix-bench: --model %s runs the CUDA kernels in the emulator of tests/emu, so it needs a build tree "
            "configured with SEQMIX_TESTS and SEQMIX_TOOLS; there is no %s\n",
            o->model, path);
    return 2;
}
