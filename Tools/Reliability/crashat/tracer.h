// Runs the command under ptrace(2), with a seccomp(2) filter that stops it at the calls in the table and nowhere else.

#ifndef CRASHAT_TRACER_H
#define CRASHAT_TRACER_H

#include "options.h"

// Returns the exit status.
int trace(const struct options *options);

#endif
