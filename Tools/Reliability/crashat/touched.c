#if defined(__linux__) && (defined(__x86_64__) || defined(__aarch64__))

#define _GNU_SOURCE
#include "touched.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

// Enough for a path that the kernel reports, followed by any path that the kernel accepts.
enum { LONG_PATH = 2 * PATH_MAX };

// Reads the path of an open descriptor, or of the working directory for AT_FDCWD.
static bool path_of_descriptor(pid_t thread, int descriptor, char *path) {
  char link[64];
  if (descriptor == AT_FDCWD) {
    snprintf(link, sizeof link, "/proc/%d/cwd", thread);
  } else {
    snprintf(link, sizeof link, "/proc/%d/fd/%d", thread, descriptor);
  }
  ssize_t length = readlink(link, path, PATH_MAX - 1);
  if (length < 0) return false;
  path[length] = 0;
  return true;
}

static bool path_at(pid_t thread, int descriptor, uint64_t address, char *path) {
  char given[PATH_MAX];
  // A null pointer stands for an empty path, which means the descriptor itself.
  given[0] = 0;
  if (address) read_string(thread, address, given, sizeof given);
  if (given[0] == '/') {
    strcpy(path, given);
    return true;
  }
  if (!path_of_descriptor(thread, descriptor, path)) return false;
  size_t length = strlen(path);
  snprintf(path + length, LONG_PATH - length, "/%s", given);
  return true;
}

// Removes components without an effect: `//`, `/.` and `/x/..`. The kernel has already resolved symbolic links in the
// paths of descriptors. Other symbolic links inside the root are not resolved.
static void normalize(char *path) {
  char *end = path;
  const char *rest = path;
  while (*rest) {
    while (*rest == '/') rest++;
    size_t length = strcspn(rest, "/");
    if (length == 0) break;
    if (length == 2 && rest[0] == '.' && rest[1] == '.') {
      while (end > path && *--end != '/') continue;
    } else if (!(length == 1 && rest[0] == '.')) {
      *end++ = '/';
      memmove(end, rest, length);
      end += length;
    }
    rest += length;
  }
  *end = 0;
}

static bool take_if_below(char *path, const char *root, char *relative) {
  normalize(path);
  size_t length = strlen(root);
  if (strncmp(path, root, length) != 0) return false;
  // The kernel appends this to the path of a file without a name.
  if (strcmp(path + length, " (deleted)") == 0) path[length] = 0;
  if (path[length] != '/' && path[length] != 0) return false;
  snprintf(relative, PATH_MAX, "%s", path + length + (path[length] == '/'));
  return true;
}

bool find_touched(
  pid_t thread, const struct call *call, const struct registers *registers, const char *root,
  struct touched *touched
) {
  char first[LONG_PATH] = "", second[LONG_PATH] = "";
  bool has_first = false, has_second = false;
  int descriptor = (int)call_argument(registers, 0);
  switch (call->place) {
    case PLACE_NONE: break;
    case PLACE_DESCRIPTOR: has_first = path_of_descriptor(thread, descriptor, first); break;
    case PLACE_TWO_DESCRIPTORS:
      has_first = path_of_descriptor(thread, descriptor, first);
      has_second = path_of_descriptor(thread, (int)call_argument(registers, 2), second);
      break;
    case PLACE_MAPPED: has_first = path_of_descriptor(thread, (int)call_argument(registers, 4), first); break;
    case PLACE_TWO_PATHS: has_second = path_at(thread, AT_FDCWD, call_argument(registers, 1), second);
    // Falls through, because the first path is the one of the next case.
    __attribute__((fallthrough));
    case PLACE_PATH: has_first = path_at(thread, AT_FDCWD, call_argument(registers, 0), first); break;
    case PLACE_TWO_AT:
      has_second = path_at(thread, (int)call_argument(registers, 2), call_argument(registers, 3), second);
    __attribute__((fallthrough));
    case PLACE_AT: has_first = path_at(thread, descriptor, call_argument(registers, 1), first); break;
    case PLACE_LINK_AT:
      has_first = path_at(thread, (int)call_argument(registers, 1), call_argument(registers, 2), first);
      break;
  }
  touched->path[0] = touched->second[0] = 0;
  has_first = has_first && take_if_below(first, root, touched->path);
  has_second = has_second && take_if_below(second, root, touched->second);
  return has_first || has_second;
}

#endif
