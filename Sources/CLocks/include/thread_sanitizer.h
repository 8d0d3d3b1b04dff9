// Informs the thread sanitizer about locks that it cannot detect itself.

#ifndef BLOB_THREAD_SANITIZER_H
#define BLOB_THREAD_SANITIZER_H

#include <stdint.h>

/// Declares that this thread now sees everything that was done before the last release of the tag.
///
/// Both functions have no effect in a build without the thread sanitizer.
void blob_sanitizer_acquire(uintptr_t tag);

/// Declares that the next thread that acquires the tag sees everything that this thread has done.
void blob_sanitizer_release(uintptr_t tag);

#endif
