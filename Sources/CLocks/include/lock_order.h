// Storage for the set of locks that a thread holds, which debug builds use to check the order of locks.

#ifndef BLOB_LOCK_ORDER_H
#define BLOB_LOCK_ORDER_H

#include <stdint.h>

/// Returns the address of a word of thread-local storage, initially 0. Swift has no thread-local variables.
uint64_t *_Nonnull blob_lock_order_word(void);

#endif
