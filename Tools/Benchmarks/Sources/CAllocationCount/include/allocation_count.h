#pragma once

#include <stdbool.h>
#include <stdint.h>

/// Returns the number of allocations, including reallocations, that the calling thread has made since it began. It is
/// always 0 if they cannot be counted.
uint64_t allocation_count(void);

/// Returns whether allocations can be counted: with glibc, and without a sanitizer, which replaces the allocator.
bool allocation_count_is_available(void);
