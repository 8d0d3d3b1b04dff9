// What the thread sanitizer has to be told of locks that it cannot see.

#ifndef BLOB_THREAD_SANITIZER_H
#define BLOB_THREAD_SANITIZER_H

#include <stdint.h>

/// Says that this thread now sees what was done before the last `blob_sanitizer_release` of the same tag. Does nothing
/// in a build without the thread sanitizer.
void blob_sanitizer_acquire(uintptr_t tag);

/// Says that what this thread has done is seen by whoever acquires the tag next.
void blob_sanitizer_release(uintptr_t tag);

#endif
