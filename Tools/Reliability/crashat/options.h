// What the command line asks for.

#ifndef CRASHAT_OPTIONS_H
#define CRASHAT_OPTIONS_H

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>

// Exit status when crashat itself could not do its work; env(1) and timeout(1) use the same.
enum { EXIT_OWN_FAILURE = 125 };

enum action {
  // Counts the calls and lets them be.
  ACTION_LIST,
  // SIGKILL before the call happens.
  ACTION_KILL,
  // The call does not happen and fails: only this one.
  ACTION_FAIL,
  // This one and every later one that touches the directory.
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
  // Which call, counted from 1.
  long at;
  enum action action;
  int error;
  long byte_count;
  // A command line for sh(1), run while the caller is held; NULL for none.
  const char *other;
  // Whether the caller is held until the other command has ended, even if that waits for something.
  bool holds_until_end;
  // Whether the caller is killed after that, where it is held.
  bool kills_after_hold;
  unsigned timeout_seconds;
  FILE *log;
  // NULL-terminated.
  char **command;
};

// Returns false, after a message, if the arguments make no sense.
bool parse_options(int argc, char **argv, struct options *options);

#endif
