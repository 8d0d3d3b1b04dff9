// Starts commands so that they can be traced.

#ifndef CRASHAT_COMMANDS_H
#define CRASHAT_COMMANDS_H

#include <sys/types.h>

// Starts a command in a new process group. It stops with SIGSTOP, after which the caller must set its ptrace options
// and continue it. Returns -1 with errno set on failure.
pid_t start_command(char *const arguments[]);

#endif
