#define _GNU_SOURCE
#include "log.h"

#include <stdio.h>
#include <time.h>

static FILE *file;

bool log_open(const char *path) {
  file = fopen(path, "we");
  return file != NULL;
}

bool log_append(enum log_kind kind, uint64_t offset, const void *bytes, uint32_t length) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  struct log_entry entry = {
    (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec, offset, length, (uint32_t)kind};
  if (fwrite(&entry, sizeof entry, 1, file) != 1) return false;
  if (length > 0 && fwrite(bytes, length, 1, file) != 1) return false;
  return fflush(file) == 0;
}
