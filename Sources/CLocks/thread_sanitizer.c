#include "include/thread_sanitizer.h"

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define HAS_THREAD_SANITIZER 1
#endif
#endif

#if HAS_THREAD_SANITIZER
// From compiler-rt's interface (sanitizer/tsan_interface.h), which not every toolchain ships.
void __tsan_acquire(void *address);
void __tsan_release(void *address);
#endif

void blob_sanitizer_acquire(uintptr_t tag) {
#if HAS_THREAD_SANITIZER
  __tsan_acquire((void *)tag);
#else
  (void)tag;
#endif
}

void blob_sanitizer_release(uintptr_t tag) {
#if HAS_THREAD_SANITIZER
  __tsan_release((void *)tag);
#else
  (void)tag;
#endif
}
