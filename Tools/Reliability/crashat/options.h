// The options of the command line.

#ifndef CRASHAT_OPTIONS_H
#define CRASHAT_OPTIONS_H

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>

// The exit status if crashat itself fails. env(1) and timeout(1) use the same.
enum { EXIT_OWN_FAILURE = 125 };

enum action {
  // Counts the calls without changing them.
  ACTION_LIST,
  // Kills the command with SIGKILL before the call.
  ACTION_KILL,
  // Makes only this call fail, without an effect.
  ACTION_FAIL,
  // Makes this call and every later one that touches the directory fail.
  ACTION_FAIL_ON,
  // A transfer moves at most `byte_count` bytes.
  ACTION_SHORT,
  // A transfer moves at most `byte_count` bytes, then SIGKILL.
  ACTION_TORN,
  // The caller is held at the call while the other command runs.
  ACTION_HOLD,
};

struct options {
  // The directory, absolute and without links; it need not exist yet.
  char root[PATH_MAX];
  // The number of the call, counted from 1.
  long at;
  enum action action;
  int error;
  long byte_count;
  // A command line for sh(1), run while the caller is held; NULL for none.
  const char *other;
  // A flag that indicates whether the caller is held until the other command ends, even if that command waits.
  bool holds_until_end;
  // A flag that indicates whether a held caller is killed after the other command.
  bool kills_after_hold;
  unsigned timeout_seconds;
  FILE *log;
  // NULL-terminated.
  char **command;
};

// Returns false, after printing a message, if the arguments are invalid.
bool parse_options(int argc, char **argv, struct options *options);

#endif
