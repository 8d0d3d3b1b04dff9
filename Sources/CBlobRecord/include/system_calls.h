// System calls that Swift's C library modules lack: GNU names, Darwin's own, and variadic functions.
// Each returns what the call returns and leaves errno as the call left it.

#ifndef BLOB_SYSTEM_CALLS_H
#define BLOB_SYSTEM_CALLS_H

#include <stdint.h>
#include <sys/types.h>

/// openat2(2) with RESOLVE_BENEATH and RESOLVE_NO_SYMLINKS on Linux; openat(2) with O_NOFOLLOW_ANY on Darwin.
/// Fails with ENOSYS where the platform has neither.
int blob_open_beneath(int directory, const char *path, int flags, mode_t mode);

/// openat(2), which is variadic.
int blob_openat(int directory, const char *path, int flags, mode_t mode);

/// renameat2(2) with RENAME_NOREPLACE; renameatx_np(2) with RENAME_EXCL on Darwin.
int blob_rename_no_replace(int from_directory, const char *from, int to_directory, const char *to);

/// Puts written data on the medium: fdatasync(2); F_BARRIERFSYNC on Darwin (order, not arrival).
int blob_sync_barrier(int descriptor);

/// Puts data and metadata on the medium: fsync(2); F_FULLFSYNC on Darwin.
int blob_sync_full(int descriptor);

#endif
