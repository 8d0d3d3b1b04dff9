// The log of a run, with one JSON object per line.

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
  // The number of bytes to transfer, and their offset in the file; -1 if the call transfers none, or has no offset.
  int64_t byte_count;
  int64_t offset;
  // A flag that indicates whether the action applies to this call.
  bool is_hit;
};

struct logged_end {
  long call_count;
  // A flag that indicates whether the call that the action applies to has occurred.
  bool has_fired;
  bool has_timed_out;
  // The exit statuses of the commands as in shells; -1 for a command that never ran.
  int command_status;
  int other_status;
  // A flag that indicates whether the other command had to wait for something before the first command continued.
  bool other_was_blocked;
};

void log_call(FILE *log, const struct logged_call *call);
void log_end(FILE *log, const struct logged_end *end);

#endif
