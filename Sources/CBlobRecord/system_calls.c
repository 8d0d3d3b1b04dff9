#define _GNU_SOURCE
#include "include/system_calls.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#if defined(__linux__)
#include <sys/syscall.h>
#if __has_include(<linux/openat2.h>)
#include <linux/openat2.h>
#endif
#endif

int blob_openat(int directory, const char *path, int flags, mode_t mode) {
  return openat(directory, path, flags, mode);
}

int blob_open_beneath(int directory, const char *path, int flags, mode_t mode) {
#if defined(__linux__) && defined(SYS_openat2) && defined(RESOLVE_BENEATH)
  struct open_how how = {
    .flags = (uint64_t)(unsigned)flags,
    .mode = (flags & O_CREAT) ? mode : 0,
    .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS,
  };
  return (int)syscall(SYS_openat2, directory, path, &how, sizeof how);
#elif defined(O_NOFOLLOW_ANY)
  return openat(directory, path, flags | O_NOFOLLOW_ANY, mode);
#else
  (void)directory, (void)path, (void)flags, (void)mode;
  errno = ENOSYS;
  return -1;
#endif
}

int blob_rename_no_replace(int from_directory, const char *from, int to_directory, const char *to) {
#if defined(__linux__) && defined(SYS_renameat2)
  return (int)syscall(SYS_renameat2, from_directory, from, to_directory, to, 1 /* RENAME_NOREPLACE */);
#elif defined(__APPLE__)
  return renameatx_np(from_directory, from, to_directory, to, RENAME_EXCL);
#else
  (void)from_directory, (void)from, (void)to_directory, (void)to;
  errno = EINVAL;
  return -1;
#endif
}

int blob_sync_barrier(int descriptor) {
#if defined(F_BARRIERFSYNC)
  int result = fcntl(descriptor, F_BARRIERFSYNC);
  return result == -1 && errno == ENOTSUP ? fsync(descriptor) : result;
#elif defined(__linux__)
  return fdatasync(descriptor);
#else
  return fsync(descriptor);
#endif
}

int blob_sync_full(int descriptor) {
#if defined(F_FULLFSYNC)
  int result = fcntl(descriptor, F_FULLFSYNC);
  return result == -1 && errno == ENOTSUP ? fsync(descriptor) : result;
#else
  return fsync(descriptor);
#endif
}
