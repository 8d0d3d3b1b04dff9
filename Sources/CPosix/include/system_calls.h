// System calls that Swift's C library modules lack: GNU extensions, Darwin extensions, and variadic functions.
// Each function returns the result of the system call, and leaves errno as the call set it.

#ifndef BLOB_SYSTEM_CALLS_H
#define BLOB_SYSTEM_CALLS_H

#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>

/// openat2(2) with RESOLVE_BENEATH and RESOLVE_NO_SYMLINKS on Linux; openat(2) with O_NOFOLLOW_ANY on Darwin.
/// Fails with ENOSYS where the platform has neither.
int blob_open_beneath(int directory, const char *path, int flags, mode_t mode);

/// Opens an existing file like blob_open_beneath, with RESOLVE_CACHED: fails with EAGAIN if the lookup of the path has
/// to wait for the disk. Fails with ENOSYS on Darwin, and with EINVAL on Linux before 5.12.
int blob_open_cached(int directory, const char *path, int flags);

/// preadv2(2) with RWF_NOWAIT.
///
/// Reads only bytes that are in the page cache: fewer than requested if the rest is on disk. Fails with EAGAIN if the
/// first byte is on disk, EOPNOTSUPP if the file system does not support the flag, and ENOSYS on Darwin.
ssize_t blob_read_cached(int descriptor, const struct iovec *vectors, int count, int64_t offset);

/// openat(2), which is variadic.
int blob_openat(int directory, const char *path, int flags, mode_t mode);

/// renameat2(2) with RENAME_NOREPLACE; renameatx_np(2) with RENAME_EXCL on Darwin.
int blob_rename_no_replace(int from_directory, const char *from, int to_directory, const char *to);

/// renameat2(2) with RENAME_EXCHANGE; renameatx_np(2) with RENAME_SWAP on Darwin.
int blob_rename_exchange(int from_directory, const char *from, int to_directory, const char *to);

/// Returns O_NOATIME, which is a GNU extension, or 0 on systems without it.
int blob_no_access_time(void);

/// Returns 1 if this process can open only files of its own user with O_NOATIME, 0 if not.
///
/// open(2) guarantees this for a process that has no privilege over the files of others and cannot gain it: its real,
/// effective and saved user are the same and not root, and this thread and the first have no CAP_FOWNER or CAP_SETUID.
///
/// Some systems that emulate Linux do not refuse O_NOATIME. So the function also tries the flag on the root directory,
/// which the user should not own. Always 0 on Darwin, which has no such flag.
int blob_owns_what_it_spares(void);

/// Creates a file without a name, for reading and writing: openat(2) with O_TMPFILE. Fails with ENOTSUP on Darwin.
int blob_create_unnamed(int directory, int flags, mode_t mode);

/// Gives a name to a file that blob_create_unnamed created; fails with EEXIST if the name is taken.
///
/// It calls linkat(2) with AT_EMPTY_PATH, or with the path of the descriptor below /proc if the first call is refused.
int blob_link_unnamed(int descriptor, int directory, const char *name);

/// Takes a write lease on an open file: fcntl(2) with F_SETLEASE.
///
/// Before that, F_SETSIG selects SIGURG, which is ignored by default, as the signal when a process opens the file.
/// Fails with EAGAIN if the file is open elsewhere or mapped, and with ENOTSUP on Darwin, which has no leases.
int blob_take_write_lease(int descriptor);

/// Releases a lease: fcntl(2) with F_SETLEASE and F_UNLCK.
int blob_release_lease(int descriptor);

/// Creates a pipe: pipe2(2) with O_CLOEXEC and O_NONBLOCK, or pipe(2) and fcntl(2) on systems other than Linux.
int blob_pipe(int descriptors[2]);

/// Writes a file's data to the medium: fdatasync(2). On Darwin F_BARRIERFSYNC, which only orders the writes.
int blob_sync_barrier(int descriptor);

/// Writes a file's data and metadata to the medium: fsync(2); F_FULLFSYNC on Darwin.
int blob_sync_full(int descriptor);

/// Reads the status of an open file with the fastest variant of fstat(2).
///
/// From 2.33 to 2.39, the GNU C library calls newfstatat(2) with an empty path instead, which takes a quarter longer.
/// Loads and enumerations read the status of each file.
int blob_status(int descriptor, struct stat *status);

/// Unlocks (0) a range of bytes for the open file description, or locks it: exclusively (1) or shared with others (2).
///
/// The call does not wait: fcntl(2) with F_OFD_SETLK. A length of 0 means all bytes from the offset on.
int blob_lock_bytes(int descriptor, int64_t offset, int64_t length, int lock);

/// Returns 1 if another open file description has a lock on one of the bytes, 0 if not: fcntl(2) with F_OFD_GETLK.
int blob_are_bytes_locked(int descriptor, int64_t offset, int64_t length);

/// Sets the length of a new file, and allocates its blocks.
///
/// After that, no write to a mapping of the file can fail because the volume is full. posix_fallocate(3); on Darwin
/// F_PREALLOCATE and ftruncate(2).
int blob_allocate(int descriptor, int64_t length);

/// Reserves blocks for a file without changing its length: fallocate(2); on Darwin F_PREALLOCATE.
int blob_reserve(int descriptor, int64_t length);

/// Allocates the blocks of a range of a file, and extends the file to the end of the range if needed: fallocate(2).
///
/// Existing bytes stay. On Darwin, F_PREALLOCATE reserves as many blocks after the end of the file, and the length does
/// not change, because two processes that call ftruncate(2) could cut off each other's bytes.
int blob_allocate_range(int descriptor, int64_t offset, int64_t length);

/// Gives a range of a file blocks of its own: FALLOC_FL_UNSHARE_RANGE of fallocate(2), which also allocates holes, or
/// fallocate(2) without flags where the file system shares no blocks between files. On a full volume, a range that needs
/// no blocks is recognized by FS_IOC_FIEMAP of ioctl_fiemap(2).
///
/// Existing bytes stay. Fails with EOPNOTSUPP on Darwin, whose F_PREALLOCATE allocates no blocks before the end of a file.
int blob_own_range(int descriptor, int64_t offset, int64_t length);

/// Returns 1 if an offset of a file is in a hole, and 0 if it is not, or if the file system does not tell: lseek(2) with
/// SEEK_DATA.
int blob_is_hole(int descriptor, int64_t offset);

/// Frees the blocks of a range, which then reads as zeros: FALLOC_FL_PUNCH_HOLE of fallocate(2); F_PUNCHHOLE on Darwin.
int blob_punch_hole(int descriptor, int64_t offset, int64_t length);

/// Reads an extended attribute: fgetxattr(2), which has two more arguments on Darwin. Fails with ENODATA, or ENOATTR on
/// Darwin, if the file has no attribute of that name.
ssize_t blob_read_attribute(int descriptor, const char *name, void *value, size_t size);

/// Lists the names of a file's extended attributes, each followed by a 0.
///
/// flistxattr(2), which has one more argument on Darwin. Fails with ERANGE if the names need more than `size` bytes.
ssize_t blob_list_attributes(int descriptor, char *names, size_t size);

/// The hazard that mappings are not coherent between hosts, or that locks are missing: NFS, SMB, 9p, FUSE.
#define BLOB_MAPPING_INCOHERENT 1

/// The hazard that writes go to new blocks, so that a write to a mapping raises SIGBUS on a full volume.
#define BLOB_MAPPING_NEEDS_ROOM 2

/// The hazard that even a read of a hole through a mapping takes room, and raises SIGBUS if there is none: tmpfs.
#define BLOB_MAPPING_READS_NEED_ROOM 3

/// Returns the hazard of sharing a file through a mapping on its file system.
///
/// 0 if there is no hazard; -1 with errno set.
int blob_mapping_hazard(int descriptor);

/// Returns the width of the terminal in characters; -1 with errno set.
///
/// ioctl(2) with TIOCGWINSZ, which is variadic.
int blob_terminal_width(int descriptor);

/// Creates a file in memory, closed by exec(2): memfd_create(2). Fails with ENOSYS on Darwin.
int blob_create_memory_file(void);

/// Reads the identifier of the current boot, 36 characters and a zero: /proc/sys/kernel/random/boot_id on Linux,
/// kern.bootsessionuuid on Darwin.
int blob_boot_identifier(char text[37]);

/// Asks the processor to load a cache line that is needed soon. The call does not wait, and any address is allowed.
static inline void blob_prefetch(const void *address) { __builtin_prefetch(address); }

#endif
