#pragma once

#include <stdbool.h>
#include <stdint.h>

/// Allocations that the calling thread has made since it began; reallocations count too. Always 0 where they cannot be
/// counted.
uint64_t allocation_count(void);

/// Whether they can be: with glibc, and without a sanitizer, which has an allocator of its own.
bool allocation_count_is_available(void);
