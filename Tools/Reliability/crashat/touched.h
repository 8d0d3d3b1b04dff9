// Which files of a directory a system call touches.

#ifndef CRASHAT_TOUCHED_H
#define CRASHAT_TOUCHED_H

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

#include "calls.h"
#include "tracee.h"

struct touched {
  // The path relative to the root; empty for the root itself.
  char path[PATH_MAX];
  // The second file of a call that names two files, otherwise empty.
  char second[PATH_MAX];
};

// Returns whether the call touches the root or something below it.
bool find_touched(
  pid_t thread, const struct call *call, const struct registers *registers, const char *root,
  struct touched *touched);

#endif
