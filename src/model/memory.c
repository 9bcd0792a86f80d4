/* SPDX-License-Identifier: MIT */
/* Memory needed and available (see memory.h). */
#include "memory.h"

size_t seqmix_memory_total(const seqmix_memory *m)
{
    return m->weights + m->parameters + m->state + m->cache + m->buffers;
}

int64_t seqmix_memory_parse(const char *meminfo)
{
    const char *line = strstr(meminfo, "MemAvailable:");
    long long kilobytes;
    if (line == NULL || sscanf(line, "MemAvailable: %15lld kB", &kilobytes) != 1 || kilobytes < 0) return -1;
    return (int64_t)kilobytes * 1024;
}

int64_t seqmix_memory_available(void)
{
    char text[4096];
    FILE *file = fopen("/proc/meminfo", "r");
    if (file == NULL) return -1;
    size_t n = fread(text, 1, sizeof text - 1, file);
    (void)fclose(file);
    text[n] = '\0';
    return seqmix_memory_parse(text);
}

static double mib(size_t bytes)
{
    return (double)bytes / 1048576.0;
}

bool seqmix_memory_fits(const seqmix_memory *m, int64_t available, seqmix_why why)
{
    size_t total = seqmix_memory_total(m);
    if (available >= 0 && total <= (size_t)available) return true;
    char have[48];
    if (available < 0)
        (void)snprintf(have, sizeof have, "how much is available is unknown");
    else
        (void)snprintf(have, sizeof have, "%.1f MiB available", mib((size_t)available));
    return seqmix_fail(
        why,
        "%.1f MiB of memory needed (weights %.1f, parameters %.1f, state %.1f, cache %.1f, buffers %.1f), "
        "but %s",
        mib(total), mib(m->weights), mib(m->parameters), mib(m->state), mib(m->cache), mib(m->buffers), have);
}
