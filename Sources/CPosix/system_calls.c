#define _GNU_SOURCE
#include "include/system_calls.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#if defined(__APPLE__)
#include <sys/mount.h>
#include <sys/param.h>
#include <sys/sysctl.h>
#include <sys/xattr.h>
#endif

#if defined(__linux__)
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/xattr.h>
#if __has_include(<linux/openat2.h>)
#include <linux/openat2.h>
#endif
#if __has_include(<linux/capability.h>)
#include <linux/capability.h>
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

int blob_open_cached(int directory, const char *path, int flags) {
#if defined(__linux__) && defined(SYS_openat2) && defined(RESOLVE_BENEATH)
  struct open_how how = {
    .flags = (uint64_t)(unsigned)flags,
    .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | 0x20 /* RESOLVE_CACHED */,
  };
  return (int)syscall(SYS_openat2, directory, path, &how, sizeof how);
#else
  (void)directory, (void)path, (void)flags;
  errno = ENOSYS;
  return -1;
#endif
}

ssize_t blob_read_cached(int descriptor, const struct iovec *vectors, int count, int64_t offset) {
#if defined(__linux__) && defined(SYS_preadv2)
  // The offset is passed as two arguments. A 64-bit kernel uses only the first, a 32-bit kernel both.
  return syscall(
    SYS_preadv2, descriptor, vectors, count, (long)offset, sizeof(long) < 8 ? (long)(offset >> 32) : 0L,
    8 /* RWF_NOWAIT */);
#else
  (void)descriptor, (void)vectors, (void)count, (void)offset;
  errno = ENOSYS;
  return -1;
#endif
}

int blob_status(int descriptor, struct stat *status) {
#if defined(__linux__) && (defined(__x86_64__) || defined(__aarch64__)) && defined(__LP64__)
  // On these machines, the C library and the kernel use the same layout of struct stat.
  return (int)syscall(SYS_fstat, descriptor, status);
#else
  return fstat(descriptor, status);
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

int blob_rename_exchange(int from_directory, const char *from, int to_directory, const char *to) {
#if defined(__linux__) && defined(SYS_renameat2)
  return (int)syscall(SYS_renameat2, from_directory, from, to_directory, to, 2 /* RENAME_EXCHANGE */);
#elif defined(__APPLE__)
  return renameatx_np(from_directory, from, to_directory, to, RENAME_SWAP);
#else
  (void)from_directory, (void)from, (void)to_directory, (void)to;
  errno = EINVAL;
  return -1;
#endif
}

int blob_no_access_time(void) {
#if defined(O_NOATIME)
  return O_NOATIME;
#else
  return 0;
#endif
}

#if defined(__linux__) && defined(O_NOATIME) && defined(CAP_FOWNER)
static int has_power_over_files(pid_t thread) {
  struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3, .pid = thread};
  struct __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3];
  if (syscall(SYS_capget, &header, sets) != 0) return 1;
  const int powers[] = {CAP_FOWNER, CAP_SETUID};
  for (int i = 0; i < 2; i++) {
    if (sets[CAP_TO_INDEX(powers[i])].permitted & CAP_TO_MASK(powers[i])) return 1;
  }
  return 0;
}

static int spares_only_its_own(void) {
  int root = open("/", O_RDONLY | O_DIRECTORY | O_NOATIME | O_CLOEXEC);
  if (root < 0) return errno == EPERM;
  close(root);
  return 0;
}

int blob_owns_what_it_spares(void) {
  uid_t real, effective, saved;
  if (getresuid(&real, &effective, &saved) != 0) return 0;
  if (effective == 0 || real != effective || saved != effective) return 0;
  return !has_power_over_files(0) && !has_power_over_files(getpid()) && spares_only_its_own();
}
#else
int blob_owns_what_it_spares(void) { return 0; }
#endif

int blob_create_unnamed(int directory, int flags, mode_t mode) {
#if defined(__linux__) && defined(O_TMPFILE)
  return openat(directory, ".", O_TMPFILE | O_RDWR | flags, mode);
#else
  (void)directory, (void)flags, (void)mode;
  errno = ENOTSUP;
  return -1;
#endif
}

int blob_link_unnamed(int descriptor, int directory, const char *name) {
#if defined(__linux__) && defined(AT_EMPTY_PATH)
  if (linkat(descriptor, "", directory, name, AT_EMPTY_PATH) == 0) return 0;
  // Before Linux 6.10, this call needs a privilege, and fails with ENOENT without it.
  if (errno != ENOENT) return -1;
  char path[sizeof "/proc/self/fd/" + 3 * sizeof descriptor];
  snprintf(path, sizeof path, "/proc/self/fd/%d", descriptor);
  return linkat(AT_FDCWD, path, directory, name, AT_SYMLINK_FOLLOW);
#else
  (void)descriptor, (void)directory, (void)name;
  errno = ENOTSUP;
  return -1;
#endif
}

int blob_take_write_lease(int descriptor) {
#if defined(__linux__) && defined(F_SETLEASE)
  // Must precede F_SETLEASE, because the default signal, SIGIO, ends the process when the file is opened elsewhere.
  if (fcntl(descriptor, F_SETSIG, SIGURG) == -1) return -1;
  return fcntl(descriptor, F_SETLEASE, F_WRLCK);
#else
  (void)descriptor;
  errno = ENOTSUP;
  return -1;
#endif
}

int blob_release_lease(int descriptor) {
#if defined(__linux__) && defined(F_SETLEASE)
  return fcntl(descriptor, F_SETLEASE, F_UNLCK);
#else
  (void)descriptor;
  errno = ENOTSUP;
  return -1;
#endif
}

int blob_pipe(int descriptors[2]) {
#if defined(__linux__)
  return pipe2(descriptors, O_CLOEXEC | O_NONBLOCK);
#else
  if (pipe(descriptors) == -1) return -1;
  for (int end = 0; end < 2; end++) {
    // These calls fail only for descriptors that do not exist.
    fcntl(descriptors[end], F_SETFD, FD_CLOEXEC);
    fcntl(descriptors[end], F_SETFL, O_NONBLOCK);
  }
  return 0;
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

int blob_lock_bytes(int descriptor, int64_t offset, int64_t length, int lock) {
#if defined(__APPLE__) && !defined(F_OFD_SETLK)
  // The kernel supports it since macOS 10.15; its headers declare it for Apple's own code only (xnu, bsd/sys/fcntl.h).
  enum { F_OFD_SETLK = 90 };
#endif
  struct flock range = {
    .l_type = lock == 0 ? F_UNLCK : lock == 1 ? F_WRLCK : F_RDLCK,
    .l_whence = SEEK_SET,
    .l_start = offset,
    .l_len = length,
  };
  return fcntl(descriptor, F_OFD_SETLK, &range);
}

int blob_are_bytes_locked(int descriptor, int64_t offset, int64_t length) {
#if defined(__APPLE__) && !defined(F_OFD_GETLK)
  enum { F_OFD_GETLK = 92 };
#endif
  struct flock range = {
    .l_type = F_WRLCK,
    .l_whence = SEEK_SET,
    .l_start = offset,
    .l_len = length,
  };
  if (fcntl(descriptor, F_OFD_GETLK, &range) == -1) return -1;
  return range.l_type != F_UNLCK;
}

int blob_allocate(int descriptor, int64_t length) {
#if defined(__APPLE__)
  fstore_t store = {.fst_flags = F_ALLOCATEALL, .fst_posmode = F_PEOFPOSMODE, .fst_length = length};
  if (fcntl(descriptor, F_PREALLOCATE, &store) == -1) return -1;
  return ftruncate(descriptor, length);
#else
  int error = posix_fallocate(descriptor, 0, length);
  if (error == 0) return 0;
  errno = error;
  return -1;
#endif
}

int blob_reserve(int descriptor, int64_t length) {
#if defined(__APPLE__)
  fstore_t store = {.fst_flags = F_ALLOCATEALL, .fst_posmode = F_PEOFPOSMODE, .fst_length = length};
  return fcntl(descriptor, F_PREALLOCATE, &store) == -1 ? -1 : 0;
#elif defined(FALLOC_FL_KEEP_SIZE)
  return fallocate(descriptor, FALLOC_FL_KEEP_SIZE, 0, length);
#else
  errno = EOPNOTSUPP;
  return -1;
#endif
}

int blob_allocate_range(int descriptor, int64_t offset, int64_t length) {
#if defined(__APPLE__)
  (void)offset;
  fstore_t store = {.fst_flags = F_ALLOCATEALL, .fst_posmode = F_PEOFPOSMODE, .fst_length = length};
  return fcntl(descriptor, F_PREALLOCATE, &store) == -1 ? -1 : 0;
#elif defined(FALLOC_FL_KEEP_SIZE)
  return fallocate(descriptor, 0, offset, length);
#else
  errno = EOPNOTSUPP;
  return -1;
#endif
}

#if defined(__linux__)
// Returns whether a range consists of blocks that no other file shares.
static int owns_range(int descriptor, uint64_t offset, uint64_t end) {
  enum { extent_count = 16 };
  union {
    struct fiemap map;
    char bytes[sizeof(struct fiemap) + extent_count * sizeof(struct fiemap_extent)];
  } request;
  while (offset < end) {
    memset(&request, 0, sizeof request);
    request.map.fm_start = offset;
    request.map.fm_length = end - offset;
    request.map.fm_extent_count = extent_count;
    if (ioctl(descriptor, FS_IOC_FIEMAP, &request) == -1 || request.map.fm_mapped_extents == 0) return 0;
    for (uint32_t index = 0; index < request.map.fm_mapped_extents; index++) {
      const struct fiemap_extent *extent = &request.map.fm_extents[index];
      uint64_t extent_end = extent->fe_logical + extent->fe_length;
      if (extent->fe_logical > offset || extent_end <= offset || (extent->fe_flags & FIEMAP_EXTENT_SHARED)) return 0;
      offset = extent_end;
    }
  }
  return 1;
}
#endif

int blob_own_range(int descriptor, int64_t offset, int64_t length) {
#if defined(FALLOC_FL_UNSHARE_RANGE)
  int result = fallocate(descriptor, FALLOC_FL_UNSHARE_RANGE, offset, length);
  if (result == -1 && (errno == EOPNOTSUPP || errno == EINVAL)) result = fallocate(descriptor, 0, offset, length);
  if (result == 0 || (errno != ENOSPC && errno != EDQUOT)) return result;
  // XFS reserves room for the call although no block is missing.
  int error = errno;
  if (owns_range(descriptor, (uint64_t)offset, (uint64_t)(offset + length))) return 0;
  errno = error;
  return -1;
#else
  errno = EOPNOTSUPP;
  return -1;
#endif
}

int blob_is_hole(int descriptor, int64_t offset) {
#if defined(SEEK_DATA)
  off_t data = lseek(descriptor, offset, SEEK_DATA);
  if (data != -1) return data != offset;
  // There is no data after the offset.
  return errno == ENXIO;
#else
  return 0;
#endif
}

int blob_punch_hole(int descriptor, int64_t offset, int64_t length) {
#if defined(__APPLE__)
  fpunchhole_t hole = {.fp_offset = offset, .fp_length = length};
  return fcntl(descriptor, F_PUNCHHOLE, &hole) == -1 ? -1 : 0;
#elif defined(FALLOC_FL_PUNCH_HOLE)
  return fallocate(descriptor, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, length);
#else
  errno = EOPNOTSUPP;
  return -1;
#endif
}

int blob_mapping_hazard(int descriptor) {
  struct statfs volume;
  if (fstatfs(descriptor, &volume) == -1) return -1;
#if defined(__APPLE__)
  return (volume.f_flags & MNT_LOCAL) == 0 ? BLOB_MAPPING_INCOHERENT : 0;
#else
  // The magic numbers of linux/magic.h and statfs(2), which not every C library's headers define.
  switch ((uint32_t)volume.f_type) {
    case 0x6969:      // NFS
    case 0x517B:      // SMB
    case 0xFE534D42:  // SMB2
    case 0xFF534D42:  // CIFS
    case 0x01021997:  // 9p
    case 0x65735546:  // FUSE
    case 0x00C36400:  // Ceph
    case 0x5346414F:  // AFS
    case 0x786F4256:  // VirtualBox shared folders
      return BLOB_MAPPING_INCOHERENT;
    case 0x9123683E:  // btrfs
    case 0xCA451A4E:  // bcachefs
    case 0x2FC12FC1:  // ZFS
    case 0xF2F52010:  // F2FS
    case 0x3434:      // NILFS
      return BLOB_MAPPING_NEEDS_ROOM;
    case 0x01021994:  // tmpfs
      return BLOB_MAPPING_READS_NEED_ROOM;
    default:
      return 0;
  }
#endif
}

ssize_t blob_read_attribute(int descriptor, const char *name, void *value, size_t size) {
#if defined(__APPLE__)
  return fgetxattr(descriptor, name, value, size, 0, 0);
#else
  return fgetxattr(descriptor, name, value, size);
#endif
}

ssize_t blob_list_attributes(int descriptor, char *names, size_t size) {
#if defined(__APPLE__)
  return flistxattr(descriptor, names, size, 0);
#else
  return flistxattr(descriptor, names, size);
#endif
}

int blob_terminal_width(int descriptor) {
  struct winsize size;
  return ioctl(descriptor, TIOCGWINSZ, &size) == -1 ? -1 : size.ws_col;
}

int blob_boot_identifier(char text[37]) {
#if defined(__APPLE__)
  size_t size = 37;
  if (sysctlbyname("kern.bootsessionuuid", text, &size, NULL, 0) != 0) return -1;
  text[36] = 0;
  return 0;
#else
  int descriptor = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return -1;
  ssize_t count = read(descriptor, text, 36);
  int error = count < 0 ? errno : EIO;
  close(descriptor);
  text[36] = 0;
  if (count == 36) return 0;
  errno = error;
  return -1;
#endif
}

int blob_create_memory_file(void) {
#if defined(__linux__) && defined(SYS_memfd_create)
  return (int)syscall(SYS_memfd_create, "blobcache", 1 /* MFD_CLOEXEC */);
#else
  errno = ENOSYS;
  return -1;
#endif
}
