#ifndef SERVE_H
#define SERVE_H

#include <stdbool.h>

// Mounts `image` over `file` and answers the kernel's requests until it is unmounted.
bool serve(const char *image, const char *file);

#endif
