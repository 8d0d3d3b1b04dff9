// System calls that Swift's C library modules lack: GNU names, Darwin's own, and variadic functions.
// Each returns what the call returns and leaves errno as the call left it.

#ifndef BLOB_SYSTEM_CALLS_H
#define BLOB_SYSTEM_CALLS_H

#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>

/// openat2(2) with RESOLVE_BENEATH and RESOLVE_NO_SYMLINKS on Linux; openat(2) with O_NOFOLLOW_ANY on Darwin.
/// Fails with ENOSYS where the platform has neither.
int blob_open_beneath(int directory, const char *path, int flags, mode_t mode);

/// As blob_open_beneath, of a file that exists, and with RESOLVE_CACHED: fails with EAGAIN where the look-up would have to
/// wait for the disk. Fails with ENOSYS on Darwin, and with EINVAL on Linux before 5.12.
int blob_open_cached(int directory, const char *path, int flags);

/// preadv2(2) with RWF_NOWAIT.
///
/// Reads what lies in memory: fewer bytes where the rest is on the disk, and EAGAIN if that is the first one. Fails with
/// EOPNOTSUPP where the file system cannot tell, and with ENOSYS on Darwin.
ssize_t blob_read_cached(int descriptor, const struct iovec *vectors, int count, int64_t offset);

/// openat(2), which is variadic.
int blob_openat(int directory, const char *path, int flags, mode_t mode);

/// renameat2(2) with RENAME_NOREPLACE; renameatx_np(2) with RENAME_EXCL on Darwin.
int blob_rename_no_replace(int from_directory, const char *from, int to_directory, const char *to);

/// renameat2(2) with RENAME_EXCHANGE; renameatx_np(2) with RENAME_SWAP on Darwin.
int blob_rename_exchange(int from_directory, const char *from, int to_directory, const char *to);

/// O_NOATIME, a GNU name; 0 on systems without it.
int blob_no_access_time(void);

/// Whether a file that this process opens with O_NOATIME must be its user's.
///
/// open(2) says so if the process has no power over the files of others, and cannot get it. It must be one user in all
/// its roles, not root. Neither this thread nor the first may have CAP_FOWNER or CAP_SETUID.
///
/// Some systems that pass for Linux do not refuse O_NOATIME, so it is tried on the root of all files, which should not
/// be the user's. Always 0 on Darwin, which has no such flag.
int blob_owns_what_it_spares(void);

/// Creates a file that has no name yet, for reading and writing: openat(2) with O_TMPFILE. Fails with ENOTSUP on Darwin.
int blob_create_unnamed(int directory, int flags, mode_t mode);

/// Gives such a file its name; fails with EEXIST if the name is taken.
///
/// It calls linkat(2) with AT_EMPTY_PATH, or goes by way of /proc where that is refused.
int blob_link_unnamed(int descriptor, int directory, const char *name);

/// Takes a write lease of an open file: fcntl(2) with F_SETLEASE.
///
/// Before that, F_SETSIG chooses SIGURG, which is ignored by default, to tell of processes that open the file. Fails
/// with EAGAIN if it is open elsewhere or mapped, and with ENOTSUP on Darwin, which has no leases.
int blob_take_write_lease(int descriptor);

/// Gives a lease back: fcntl(2) with F_SETLEASE.
int blob_release_lease(int descriptor);

/// pipe2(2) with O_CLOEXEC and O_NONBLOCK; where it is missing, pipe(2) and fcntl(2).
int blob_pipe(int descriptors[2]);

/// Puts written data on the medium: fdatasync(2); F_BARRIERFSYNC on Darwin (order, not arrival).
int blob_sync_barrier(int descriptor);

/// Puts data and metadata on the medium: fsync(2); F_FULLFSYNC on Darwin.
int blob_sync_full(int descriptor);

/// fstat(2), by the quickest way.
///
/// From 2.33 to 2.39 the GNU library makes it by newfstatat(2) with an empty path, which takes a quarter longer. Loads
/// and walks over many files ask for a status each.
int blob_status(int descriptor, struct stat *status);

/// Unlocks (0) bytes of an open file for its description, or locks them: exclusively (1) or shared with others (2).
///
/// The call does not wait: fcntl(2) with F_OFD_SETLK. A length of 0 means all bytes from the offset on.
int blob_lock_bytes(int descriptor, int64_t offset, int64_t length, int lock);

/// Whether another open file description has one of the bytes locked: fcntl(2) with F_OFD_GETLK. 1 if so, 0 if not.
int blob_are_bytes_locked(int descriptor, int64_t offset, int64_t length);

/// Gives a new file its length and its blocks.
///
/// Then no later write to a mapping of it finds the volume full. posix_fallocate(3); on Darwin F_PREALLOCATE and
/// ftruncate(2).
int blob_allocate(int descriptor, int64_t length);

/// Sets blocks aside for the file's first bytes, and leaves its length: fallocate(2); on Darwin F_PREALLOCATE.
int blob_reserve(int descriptor, int64_t length);

/// Gives a range of a file its blocks, and the file the length to reach its end: fallocate(2).
///
/// Bytes that were there stay. On Darwin, F_PREALLOCATE sets as many blocks aside behind the file's end, and the length
/// stays: two processes could take each other's bytes away by ftruncate(2).
int blob_allocate_range(int descriptor, int64_t offset, int64_t length);

/// Gives the blocks of a range back: it reads as zeros. fallocate(2) with FALLOC_FL_PUNCH_HOLE; F_PUNCHHOLE on Darwin.
int blob_punch_hole(int descriptor, int64_t offset, int64_t length);

/// Reads an extended attribute: fgetxattr(2), which has two more arguments on Darwin. Fails with ENODATA, ENOATTR on
/// Darwin, where the file has none of the name.
ssize_t blob_read_attribute(int descriptor, const char *name, void *value, size_t size);

/// Lists the names of a file's extended attributes, each followed by a 0.
///
/// flistxattr(2), which has one more argument on Darwin. Fails with ERANGE if they need more than `size` bytes.
ssize_t blob_list_attributes(int descriptor, char *names, size_t size);

/// Mappings are not coherent between hosts, or locks may be missing: NFS, SMB, 9p, FUSE.
#define BLOB_MAPPING_INCOHERENT 1

/// Writes go to new blocks: on a full volume, one to a mapping raises SIGBUS.
#define BLOB_MAPPING_NEEDS_ROOM 2

/// The reason why a file cannot be shared through a mapping on this file system.
///
/// 0 if nothing does; -1 with errno.
int blob_mapping_hazard(int descriptor);

/// The width of the terminal in characters; -1 with errno.
///
/// ioctl(2) with TIOCGWINSZ, which is variadic.
int blob_terminal_width(int descriptor);

/// Creates a file in memory, closed by exec(2): memfd_create(2). Fails with ENOSYS on Darwin.
int blob_create_memory_file(void);

/// The identifier of the system's boot, in 36 characters and a zero: /proc/sys/kernel/random/boot_id on Linux,
/// kern.bootsessionuuid on Darwin.
int blob_boot_identifier(char text[37]);

/// Asks the processor for a cache line that is about to be needed. It waits for nothing, and any address will do.
static inline void blob_prefetch(const void *address) { __builtin_prefetch(address); }

#endif
