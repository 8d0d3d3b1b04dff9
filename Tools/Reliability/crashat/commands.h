// Starts commands so that they can be traced.

#ifndef CRASHAT_COMMANDS_H
#define CRASHAT_COMMANDS_H

#include <sys/types.h>

// Starts a command in a process group of its own; it stops with SIGSTOP, then has to be given its ptrace options and
// to be continued. Returns -1 with errno set.
pid_t start_command(char *const arguments[]);

#endif
