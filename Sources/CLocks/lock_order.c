#include "include/lock_order.h"

static _Thread_local uint64_t word;

uint64_t *blob_lock_order_word(void) { return &word; }
