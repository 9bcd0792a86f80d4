/* SPDX-License-Identifier: MIT */
/*
 * The shapes of bench/peers.txt on a GPU: a call is captured in a graph, replayed, and timed by events. Prefill starts with a
 * cold L2 (a memory set between the replays); decode walks over as many states as come from memory each time, all in one graph.
 * A result that is not within bounds of the recurrence has no time. Built against the emulator the steps run, and times mean
 * nothing. seqmix-bench-gpu [--peers FILE] [--op GLOB] [--replays N] [--scale N: rows and sequences divided] [--no-verify]
 */
#include <fnmatch.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#if defined(__CUDACC__)
#    include <cuda_runtime.h>
#else
#    include "emu.h"
#endif

extern "C" {
#include "../../../bench/bench.h"
}

namespace
{

struct Line {
    char op[40], sizes[40], mode[8], who[60];
    long long rows, seqs;
    double published; /* us; 0: none */
};

struct Device {
    cudaStream_t stream;
    int replays;
    void *scratch; /* larger than any L2 */
    size_t scratch_bytes;
    double copy; /* bytes/s, read plus written */
};

/* "16/32x128", "128x80:G8:N128", "1536:N16", "8192:K4", "64:32" */
bool parse_sizes(const char *op, const char *text, struct seqmix_shape *s)
{
    long long n[4] = {0, 0, 0, 0};
    int found = 0;
    for (const char *at = text; *at != '\0' && found < 4;) {
        char *end = nullptr;
        if (*at < '0' || *at > '9') {
            at++;
            continue;
        }
        n[found++] = strtoll(at, &end, 10);
        at = end;
    }
    snprintf(s->name, sizeof s->name, "%.39s", text);
    if (strncmp(op, "deltanet", 8) == 0) {
        s->deltanet = {n[0], n[1], n[2], n[2], 0};
        return found == 3;
    }
    if (strncmp(op, "ssd", 3) == 0) {
        s->ssd = {n[0], n[1], n[2], n[3]};
        return found == 4;
    }
    if (strncmp(op, "selective", 9) == 0)
        s->scan = {n[0], n[1], 1};
    else if (strncmp(op, "short_conv", 10) == 0)
        s->conv = {n[0], n[1], 0};
    else
        s->inverse = {n[0], n[1]};
    return found == 2;
}

/* Milliseconds between two events around `work`. */
template <class F> float timed(cudaStream_t stream, F work)
{
    cudaEvent_t from, to;
    float ms = -1;
    (void)cudaEventCreate(&from);
    (void)cudaEventCreate(&to);
    (void)cudaEventRecord(from, stream);
    work();
    (void)cudaEventRecord(to, stream);
    if (cudaEventSynchronize(to) == cudaSuccess) (void)cudaEventElapsedTime(&ms, from, to);
    (void)cudaEventDestroy(from);
    (void)cudaEventDestroy(to);
    return ms;
}

void measure_copy(Device *d)
{
    char *half = static_cast<char *>(d->scratch) + d->scratch_bytes / 2;
    float best = 1e30f;
    for (int i = 0; i < 6; i++) {
        const float ms = timed(d->stream, [&] {
            (void)cudaMemcpyAsync(half, d->scratch, d->scratch_bytes / 2, cudaMemcpyDefault, d->stream);
        });
        if (i > 0 && ms > 0) best = std::min(best, ms);
    }
    d->copy = (double)d->scratch_bytes / (1e-3 * (double)best);
}

/* A graph of one call for each copy of what is cycled; its times in us a call, sorted. */
bool replay(const Device &d, struct seqmix_bench_case *c, std::vector<double> *us)
{
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    bool ok = seqmix_bench_case_run(c, 0) == SEQMIX_OK && cudaStreamSynchronize(d.stream) == cudaSuccess;
    if (!ok || cudaStreamBeginCapture(d.stream, cudaStreamCaptureModeGlobal) != cudaSuccess) return false;
    for (int i = 0; i < c->n_copies && ok; i++)
        ok = seqmix_bench_case_run(c, i) == SEQMIX_OK;
    if (cudaStreamEndCapture(d.stream, &graph) != cudaSuccess || !ok) return false;
    if (cudaGraphInstantiate(&exec, graph, 0) != cudaSuccess) return false;
    for (int i = 0; i < d.replays + 2 && ok; i++) {
        if (!c->entry.decode) (void)cudaMemsetAsync(d.scratch, i, d.scratch_bytes, d.stream);
        const float ms = timed(d.stream, [&] { ok = cudaGraphLaunch(exec, d.stream) == cudaSuccess; });
        ok = ok && ms >= 0;
        if (i >= 2) us->push_back(1e3 * (double)ms / c->n_copies);
    }
    (void)cudaGraphExecDestroy(exec);
    (void)cudaGraphDestroy(graph);
    std::sort(us->begin(), us->end());
    return ok;
}

void print_line(const Device &d, const Line &line, const struct seqmix_bench_result &r, const std::vector<double> &us)
{
    const double median = us[us.size() / 2], floor = 1e6 * (r.read_bytes + r.write_bytes) / d.copy;
    printf("%-24s %-16s %6lld %4lld %-5s %9.2f %5.1f%% %9.2f %5.1f%%", line.op, line.sizes, line.rows, line.seqs,
           line.mode, median, 100 * (us.back() - us[0]) / median, floor, 100 * floor / median);
    if (line.published > 0) printf(" %9.2f %6.2fx  %s", line.published, line.published / median, line.who);
    printf("  [%s]\n", r.kernel);
}

/* 0, or 1 when it failed. */
int run_line(const Device &d, seqmix_ctx *ctx, const Line &line, const struct seqmix_bench_entry &entry, bool verify)
{
    struct seqmix_bench_options o = {};
    struct seqmix_bench_result r;
    struct seqmix_bench_case c;
    std::vector<double> us;
    o.limit = 1e9;
    if (verify ? !seqmix_bench_examine(ctx, &entry, &o, &r) : seqmix_bench_describe(ctx, &entry, &r) != 0) {
        printf("%-24s %-16s %6lld %4lld %-5s no time: %s\n", line.op, line.sizes, line.rows, line.seqs, line.mode,
               r.skipped[0] != '\0' ? r.skipped : r.verdict.text);
        return 1;
    }
    if (seqmix_bench_open(&c, ctx, &entry, entry.decode ? d.scratch_bytes : 0, &r) != 0) {
        printf("%-24s %-16s %s\n", line.op, line.sizes, r.skipped);
        return 1;
    }
    const bool ok = replay(d, &c, &us);
    if (ok)
        print_line(d, line, r, us);
    else
        printf("%-24s %-16s not replayed: %s; %s\n", line.op, line.sizes, seqmix_last_error(ctx),
               cudaGetErrorString(cudaGetLastError()));
    fflush(stdout);
    seqmix_bench_case_close(&c);
    return !ok;
}

int run_file(const Device &d, const char *path, const char *op, long long scale, bool verify)
{
    char text[256], why[256];
    seqmix_ctx *ctx[2] = {nullptr, nullptr};
    for (unsigned fast = 0; fast < 2; fast++) {
        seqmix_ctx_desc desc = {};
        desc.struct_size = sizeof desc;
        desc.backend = SEQMIX_BACKEND_CUDA;
        desc.device = -1;
        desc.flags = fast * SEQMIX_CTX_FAST;
        desc.stream = d.stream;
        if (seqmix_ctx_create(seqmix_get_api(SEQMIX_ABI_VERSION), &desc, &ctx[fast], why, sizeof why) != SEQMIX_OK) {
            fprintf(stderr, "seqmix-bench-gpu: %s\n", why);
            return 77;
        }
    }
    FILE *file = fopen(path, "r");
    if (file == nullptr) {
        fprintf(stderr, "seqmix-bench-gpu: cannot open %s\n", path);
        return 2;
    }
    int failed = 0;
    while (fgets(text, sizeof text, file) != nullptr) {
        Line line = {};
        static struct seqmix_shape shape;
        shape = {};
        if (text[0] == '#' || text[0] == '\n') continue;
        const int n = sscanf(text, "%39s %39s %lld %lld %7s %lf %59s", line.op, line.sizes, &line.rows, &line.seqs,
                             line.mode, &line.published, line.who);
        struct seqmix_bench_entry entry = {};
        for (int i = 0; i < seqmix_bench_n_ops; i++)
            if (strcmp(seqmix_bench_ops[i].name, line.op) == 0) entry.op = &seqmix_bench_ops[i];
        if (n != 7 || entry.op == nullptr || !parse_sizes(line.op, line.sizes, &shape)) {
            fprintf(stderr, "seqmix-bench-gpu: %s: what is this? %s", path, text);
            failed = 2;
            break;
        }
        entry.shape = &shape;
        entry.decode = !entry.op->prefill;
        entry.dtype = SEQMIX_BF16;
        if (fnmatch(op, line.op, 0) != 0) continue;
        line.rows = std::max(line.rows / scale, entry.decode ? 1LL : 65LL);
        line.seqs = std::max(line.seqs / scale, 1LL);
        entry.seqs = entry.decode ? 1 : line.seqs;
        entry.rows = line.rows * line.seqs;
        failed += run_line(d, ctx[strcmp(line.mode, "fast") == 0], line, entry, verify);
    }
    fclose(file);
    seqmix_ctx_destroy(ctx[0]);
    seqmix_ctx_destroy(ctx[1]);
    return failed;
}

} /* namespace */

int main(int argc, char **argv)
{
    const char *peers = "bench/peers.txt", *op = "*";
    int replays = 20;
    long long scale = 1;
    bool verify = true;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--peers") == 0 && i + 1 < argc)
            peers = argv[++i];
        else if (strcmp(argv[i], "--op") == 0 && i + 1 < argc)
            op = argv[++i];
        else if (strcmp(argv[i], "--replays") == 0 && i + 1 < argc)
            replays = std::max(1, atoi(argv[++i]));
        else if (strcmp(argv[i], "--scale") == 0 && i + 1 < argc)
            scale = std::max(1LL, atoll(argv[++i]));
        else if (strcmp(argv[i], "--no-verify") == 0)
            verify = false;
        else
            return fprintf(
                       stderr,
                       "usage: seqmix-bench-gpu [--peers FILE] [--op GLOB] [--replays N] [--scale N] [--no-verify]\n"),
                   2;
    }
    Device d = {};
    d.replays = replays;
    d.scratch_bytes = (size_t)(256 << 20) / (size_t)(scale > 64 ? 64 : scale);
    int n_devices = 0;
    if (cudaGetDeviceCount(&n_devices) != cudaSuccess || n_devices == 0) {
        printf("no device\n");
        return 77;
    }
    if (cudaStreamCreate(&d.stream) != cudaSuccess || cudaMalloc(&d.scratch, d.scratch_bytes) != cudaSuccess) return 2;
    measure_copy(&d);
    printf("device copy: %.0f GB/s, read plus written\n", 1e-9 * d.copy);
    printf("%-24s %-16s %6s %4s %-5s %9s %6s %9s %6s %9s %7s\n", "op", "sizes", "rows", "seqs", "mode", "us", "spread",
           "copy us", "of it", "published", "");
    const int failed = run_file(d, peers, op, scale, verify);
    printf("%d lines failed\n", failed);
    return failed != 0;
}
