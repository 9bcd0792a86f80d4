/* SPDX-License-Identifier: MIT */
/*
 * The calls that -fsanitize=thread puts at every load and store of the kernels, answered by the emulator: kernels are compiled
 * with it, programs linked without. Linking this file turns the checks on.
 */
#include "engine.h"

namespace
{
const bool on = emu::config.check = true;
}

#define PC __builtin_return_address(0)
#define SEE(name, bytes, write)                                                                                        \
    void name(void *at)                                                                                                \
    {                                                                                                                  \
        emu::access((uintptr_t)at, bytes, write, false, emu::Loc{nullptr, 0}, PC);                                     \
    }
#define HOOKS(n)                                                                                                       \
    SEE(__tsan_read##n, n, false)                                                                                      \
    SEE(__tsan_write##n, n, true)                                                                                      \
    SEE(__tsan_unaligned_read##n, n, false)                                                                            \
    SEE(__tsan_unaligned_write##n, n, true)                                                                            \
    SEE(__tsan_volatile_read##n, n, false)                                                                             \
    SEE(__tsan_volatile_write##n, n, true)

extern "C" {
HOOKS(1)
HOOKS(2)
HOOKS(4)
HOOKS(8)
HOOKS(16)
void __tsan_read_range(void *at, size_t bytes)
{
    emu::access((uintptr_t)at, bytes, false, false, emu::Loc{nullptr, 0}, PC);
}
void __tsan_write_range(void *at, size_t bytes)
{
    emu::access((uintptr_t)at, bytes, true, false, emu::Loc{nullptr, 0}, PC);
}
void __tsan_init() {}
void __tsan_func_entry(void *) {}
void __tsan_func_exit() {}
/* guards of function-local constants */
uint8_t __tsan_atomic8_load(const volatile uint8_t *at, int)
{
    return __atomic_load_n(at, __ATOMIC_SEQ_CST);
}
}
