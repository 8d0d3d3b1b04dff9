// Which locks a thread holds, for the check of their order in debug builds.

#ifndef BLOB_LOCK_ORDER_H
#define BLOB_LOCK_ORDER_H

#include <stdint.h>

/// A word of the calling thread's own, 0 at first. Swift has no variable of a thread.
uint64_t *_Nonnull blob_lock_order_word(void);

#endif
