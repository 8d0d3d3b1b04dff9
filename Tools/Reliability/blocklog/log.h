// The log of the writes and flushes that reach a block device, in order and with their times.

#ifndef LOG_H
#define LOG_H

#include <stdbool.h>
#include <stdint.h>

enum log_kind { LOG_WRITE = 1, LOG_FLUSH = 2 };

// The header of an entry, which precedes the bytes of a write, in the byte order of the machine.
struct log_entry {
  // The time of CLOCK_MONOTONIC before the completion of the request is reported to the device's user.
  uint64_t nanoseconds;
  uint64_t offset;
  uint32_t length;
  uint32_t kind;
};

bool log_open(const char *path);
bool log_append(enum log_kind kind, uint64_t offset, const void *bytes, uint32_t length);

#endif
