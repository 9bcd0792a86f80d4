/* SPDX-License-Identifier: MIT */
/*
 * A file as read-only memory (POSIX). Header only; the including file defines _POSIX_C_SOURCE before its first include.
 */
#ifndef SEQMIX_MODEL_FILE_H
#define SEQMIX_MODEL_FILE_H

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "json.h"

typedef struct seqmix_file {
    const unsigned char *bytes; /* page-aligned; NULL for an empty file */
    size_t size;
} seqmix_file;

static inline bool seqmix_file_map(const char *path, seqmix_file *file, seqmix_why why)
{
    *file = (seqmix_file){0};
    int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) return seqmix_fail(why, "%s: %s", path, strerror(errno));
    struct stat about;
    bool ok = fstat(descriptor, &about) == 0 && S_ISREG(about.st_mode);
    if (!ok) (void)seqmix_fail(why, "%s: not a regular file", path);
    if (ok && about.st_size > 0) {
        void *at = mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_PRIVATE, descriptor, 0);
        ok = at != MAP_FAILED;
        if (ok) *file = (seqmix_file){at, (size_t)about.st_size};
        if (!ok)
            (void)seqmix_fail(why, "%s: cannot map %lld bytes: %s", path, (long long)about.st_size, strerror(errno));
    }
    (void)close(descriptor);
    return ok;
}

static inline void seqmix_file_unmap(seqmix_file *file)
{
    /* munmap takes a pointer to non-const, though the pages were never writable. */
    if (file->bytes != NULL) (void)munmap((void *)(uintptr_t)file->bytes, file->size);
    *file = (seqmix_file){0};
}

static inline bool seqmix_file_exists(const char *path)
{
    struct stat about;
    return stat(path, &about) == 0;
}

#endif
