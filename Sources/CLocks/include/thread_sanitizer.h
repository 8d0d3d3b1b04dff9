// Tells the thread sanitizer of locks that it cannot see.

#ifndef BLOB_THREAD_SANITIZER_H
#define BLOB_THREAD_SANITIZER_H

#include <stdint.h>

/// Says that this thread now sees what was done before the tag's last release.
///
/// Does nothing in a build without the thread sanitizer.
void blob_sanitizer_acquire(uintptr_t tag);

/// Says that the next thread to acquire the tag sees what this one has done.
void blob_sanitizer_release(uintptr_t tag);

#endif
