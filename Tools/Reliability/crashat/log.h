// What happened, one JSON object a line.

#ifndef CRASHAT_LOG_H
#define CRASHAT_LOG_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "calls.h"
#include "touched.h"

struct logged_call {
  long number;
  pid_t thread;
  const struct call *call;
  enum effect effect;
  const struct touched *touched;
  // Bytes to be moved, and from where; -1 where the call moves none, or has no position.
  int64_t byte_count;
  int64_t offset;
  // Whether this is the call that the action is for.
  bool is_hit;
};

struct logged_end {
  long call_count;
  // Whether the call that the action is for came.
  bool has_fired;
  bool has_timed_out;
  // How the commands ended, as shells count; -1 for one that never ran.
  int command_status;
  int other_status;
  // Whether the other command had to wait for something before the first went on.
  bool other_was_blocked;
};

void log_call(FILE *log, const struct logged_call *call);
void log_end(FILE *log, const struct logged_end *end);

#endif
