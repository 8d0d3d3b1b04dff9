// Runs a command, and interferes with its N-th file system call that touches a directory: kills the command, makes the
// call fail or transfer fewer bytes, or runs another command first. See usage() in options.c.

#include <stdio.h>

#if defined(__linux__) && (defined(__x86_64__) || defined(__aarch64__))

#include "options.h"
#include "tracer.h"

int main(int argc, char **argv) {
  struct options options;
  if (!parse_options(argc, argv, &options)) return EXIT_OWN_FAILURE;
  return trace(&options);
}

#else

int main(void) {
  fprintf(stderr, "crashat: only Linux on x86-64 and aarch64 is supported\n");
  return 2;
}

#endif
