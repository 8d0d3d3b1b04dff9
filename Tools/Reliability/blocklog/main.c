// Serves an image through FUSE as one file, which is mounted over another file, and logs each write and flush. A loop
// device on that file is then a disk with a log of the order in which its bytes were written.
//
//     blocklog IMAGE FILE LOG
//
// Prints `ready` when the file is mounted; ends when it is unmounted. Linux, as root.

#include <stdio.h>

#if defined(__linux__)

#include "log.h"
#include "serve.h"

int main(int argc, char **argv) {
  if (argc != 4) {
    fprintf(stderr, "usage: blocklog IMAGE FILE LOG\n");
    return 64;
  }
  if (!log_open(argv[3])) {
    perror(argv[3]);
    return 2;
  }
  return serve(argv[1], argv[2]) ? 0 : 2;
}

#else

int main(void) {
  fprintf(stderr, "blocklog: only Linux is supported\n");
  return 2;
}

#endif
