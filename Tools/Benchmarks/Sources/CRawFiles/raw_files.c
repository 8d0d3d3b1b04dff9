#define _GNU_SOURCE
#include "include/raw_files.h"
#include "record_path.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#if defined(__linux__)
#include <sys/vfs.h>
#else
#include <sys/mount.h>
#include <sys/param.h>
#endif

enum { header_size = 64 };

// MARK: - Names

static record_path temporary_path_of(const raw_key *key, uint64_t number) {
  record_path result;
  memcpy(result.text, key->text, 2);
  snprintf(result.text + 2, sizeof result.text - 2, "/.tmp-%llx", (unsigned long long)number);
  return result;
}

// SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014): a permutation of 64 bits,
// so that keys do not repeat.
static uint64_t mixed(uint64_t value) {
  value += 0x9e3779b97f4a7c15;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

void raw_make_keys(uint64_t first, size_t count, size_t digits, raw_key *keys) {
  for (size_t i = 0; i < count; i++) {
    uint64_t a = mixed(first + i), b = mixed(a), c = mixed(b);
    snprintf(
      keys[i].text, sizeof keys[i].text, "%016llx%016llx%08llx", (unsigned long long)a, (unsigned long long)b,
      (unsigned long long)(c >> 32));
    if (digits < sizeof keys[i].text) memset(keys[i].text + digits, 0, sizeof keys[i].text - digits);
  }
}

// MARK: - Directories

int raw_open_root(const char *path) {
  if (mkdir(path, 0700) != 0 && errno != EEXIST) return -1;
  int root = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (root < 0) return -1;
  for (int i = 0; i < 256; i++) {
    char name[3];
    snprintf(name, sizeof name, "%02x", i);
    if (mkdirat(root, name, 0700) != 0 && errno != EEXIST) return -1;
  }
  return root;
}

int raw_close(int root) {
  return close(root);
}

const char *raw_file_system(int root) {
  static char name[32];
  struct statfs volume;
  if (fstatfs(root, &volume) != 0) return "unknown";
#if defined(__linux__)
  switch ((unsigned long)volume.f_type) {
  case 0xef53: return "ext4";
  case 0x58465342: return "xfs";
  case 0x9123683e: return "btrfs";
  case 0x01021994: return "tmpfs";
  case 0x794c7630: return "overlayfs";
  case 0x6969: return "nfs";
  }
  snprintf(name, sizeof name, "0x%lx", (unsigned long)volume.f_type);
#else
  snprintf(name, sizeof name, "%s", volume.f_fstypename);
#endif
  return name;
}

int raw_lock_bytes(int file, size_t count) {
#if defined(F_OFD_SETLK)
  for (size_t i = 0; i < count; i++) {
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = (off_t)(i % 4096), .l_len = 1};
    struct stat status;
    if (fcntl(file, F_OFD_SETLK, &lock) != 0 || fstat(file, &status) != 0) return -1;
    lock.l_type = F_UNLCK;
    if (fcntl(file, F_OFD_SETLK, &lock) != 0) return -1;
  }
  return 0;
#else
  (void)file, (void)count;
  errno = ENOSYS;
  return -1;
#endif
}

int raw_write_synced(int file, const void *bytes, size_t count, uint64_t offset) {
  if (pwrite(file, bytes, count, (off_t)offset) != (ssize_t)count) return -1;
#if defined(__linux__)
  return fdatasync(file);
#else
  return fcntl(file, F_FULLFSYNC);
#endif
}

int raw_sync(int root) {
#if defined(__linux__)
  return syncfs(root);
#else
  (void)root;
  sync();
  return 0;
#endif
}

// MARK: - Records

static int write_all(int file, const char *bytes, size_t count) {
  while (count > 0) {
    ssize_t written = write(file, bytes, count);
    if (written < 0) return -1;
    bytes += written;
    count -= (size_t)written;
  }
  return 0;
}

// The number in the next temporary name. Threads that store concurrently need different names.
static atomic_uint_fast64_t temporary_number;

static int store(int root, const raw_key *key, const char *record, size_t byte_count) {
  record_path temporary = temporary_path_of(key, atomic_fetch_add_explicit(&temporary_number, 1, memory_order_relaxed));
  int file = openat(root, temporary.text, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file < 0) return -1;
  int result = write_all(file, record, byte_count);
  if (close(file) != 0 || result != 0) return -1;
  return renameat(root, temporary.text, root, path_of(key).text);
}

static volatile unsigned long checksum_sink;

static void checksum(const void *payload, size_t count) {
  checksum_sink = crc32_z(0, payload, count);
}

int raw_store(int root, const raw_key *keys, size_t count, const void *record, size_t byte_count, bool checksums) {
  for (size_t i = 0; i < count; i++) {
    if (checksums) checksum((const char *)record + header_size, byte_count - header_size);
    if (store(root, &keys[i], record, byte_count) != 0) return -1;
  }
  return 0;
}

/// Returns 1 if the record exists, 0 if it does not.
static int load(int root, const raw_key *key, bool checksums) {
  int file = openat(root, path_of(key).text, O_RDONLY | O_CLOEXEC);
  if (file < 0) return errno == ENOENT ? 0 : -1;
  struct stat status;
  if (fstat(file, &status) != 0) return -1;
  size_t byte_count = (size_t)status.st_size;
  char *bytes = malloc(byte_count);
  if (!bytes) return -1;
  size_t done = 0;
  while (done < byte_count) {
    ssize_t moved = read(file, bytes + done, byte_count - done);
    if (moved < 0) return -1;
    if (moved == 0) break;
    done += (size_t)moved;
  }
  if (checksums) checksum(bytes + header_size, byte_count - header_size);
  if (close(file) != 0) return -1;
  free(bytes);
  return 1;
}

int64_t raw_load(int root, const raw_key *keys, size_t count, bool checksums) {
  int64_t found = 0;
  for (size_t i = 0; i < count; i++) {
    int result = load(root, &keys[i], checksums);
    if (result < 0) return -1;
    found += result;
  }
  return found;
}

int raw_rewrite_headers(int root, const raw_key *keys, size_t count) {
  for (size_t i = 0; i < count; i++) {
    char header[header_size];
    int file = openat(root, path_of(&keys[i]).text, O_RDWR | O_CLOEXEC);
    if (file < 0) return -1;
    if (pread(file, header, sizeof header, 0) != sizeof header) return -1;
    if (pwrite(file, header, sizeof header, 0) != sizeof header) return -1;
    if (close(file) != 0) return -1;
  }
  return 0;
}

int raw_remove(int root, const raw_key *keys, size_t count) {
  for (size_t i = 0; i < count; i++) {
    if (unlinkat(root, path_of(&keys[i]).text, 0) != 0) return -1;
  }
  return 0;
}

// MARK: - Many records

/// Reads the headers of all files in a subdirectory, and returns the number of files.
static int64_t enumerate(int subdirectory) {
  DIR *stream = fdopendir(subdirectory);
  if (!stream) return -1;
  int64_t count = 0;
  struct dirent *entry;
  while ((entry = readdir(stream))) {
    if (entry->d_name[0] == '.') continue;
    char header[header_size];
    int file = openat(subdirectory, entry->d_name, O_RDONLY | O_CLOEXEC);
    if (file < 0) return -1;
    if (read(file, header, sizeof header) != sizeof header) return -1;
    if (close(file) != 0) return -1;
    count++;
  }
  closedir(stream);
  return count;
}

int64_t raw_enumerate(int root) {
  int own = openat(root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (own < 0) return -1;
  DIR *stream = fdopendir(own);
  if (!stream) return -1;
  int64_t total = 0;
  struct dirent *entry;
  while ((entry = readdir(stream))) {
    if (entry->d_name[0] == '.') continue;
    int subdirectory = openat(root, entry->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (subdirectory < 0) return -1;
    int64_t count = enumerate(subdirectory);
    if (count < 0) return -1;
    total += count;
  }
  closedir(stream);
  return total;
}

int raw_populate(
  int root, const raw_key *keys, size_t count, const void *header, size_t byte_count, uint64_t payload_size) {
  for (size_t i = 0; i < count; i++) {
    int file = openat(root, path_of(&keys[i]).text, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file < 0) return -1;
    if (write_all(file, header, byte_count) != 0) return -1;
    if (payload_size > 0 && ftruncate(file, (off_t)(byte_count + payload_size)) != 0) return -1;
    if (close(file) != 0) return -1;
  }
  return 0;
}
