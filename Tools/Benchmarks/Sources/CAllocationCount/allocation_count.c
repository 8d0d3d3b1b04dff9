#include "allocation_count.h"

#include <stddef.h>
#include <stdlib.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define HAS_SANITIZER
#endif
#endif

#if defined(__GLIBC__) && !defined(HAS_SANITIZER)

// A program may replace these functions of the GNU C library, whose own remain available under other names: see
// "Replacing malloc" in its manual. The memory is allocated by the library, so its free() need not be replaced.

void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void *__libc_memalign(size_t, size_t);

static _Thread_local uint64_t count;

void *malloc(size_t size) {
  count += 1;
  return __libc_malloc(size);
}

void *calloc(size_t number, size_t size) {
  count += 1;
  return __libc_calloc(number, size);
}

void *realloc(void *old, size_t size) {
  count += 1;
  return __libc_realloc(old, size);
}

void *memalign(size_t alignment, size_t size) {
  count += 1;
  return __libc_memalign(alignment, size);
}

void *aligned_alloc(size_t alignment, size_t size) {
  return memalign(alignment, size);
}

int posix_memalign(void **result, size_t alignment, size_t size) {
  void *memory = memalign(alignment, size);
  if (memory == NULL) return 12;  // ENOMEM; the function must not set errno
  *result = memory;
  return 0;
}

uint64_t allocation_count(void) { return count; }
bool allocation_count_is_available(void) { return true; }

#else

uint64_t allocation_count(void) { return 0; }
bool allocation_count_is_available(void) { return false; }

#endif
