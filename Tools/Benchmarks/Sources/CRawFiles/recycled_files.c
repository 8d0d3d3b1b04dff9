#if defined(__linux__)

#define _GNU_SOURCE
#include "include/recycled_files.h"
#include "record_path.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/xattr.h>
#include <unistd.h>

enum { header_size = 64, subdirectory_count = 256, most_dead = 4096, small_payload = 8192, stack_count = 64, depth = 8 };

/// A dead file: the number in its name, and the digest of the key whose record it contained last.
typedef struct dead_file {
  uint64_t number, digest;
} dead_file;

/// Dead files whose digests have the same highest bits. New files are appended.
typedef struct dead_stack {
  dead_file files[most_dead];
  size_t count;
} dead_stack;

struct recycled_files {
  int root, bin, control;
  int subdirectories[subdirectory_count];
  bool is_superuser;
  /// A flag that indicates whether the last loaded record was not small.
  atomic_bool was_large;
  atomic_uint_fast64_t next_number;
  pthread_mutex_t lock;
  dead_stack dead[stack_count];
  size_t dead_count;
};

// MARK: - Directories

static int open_directory(int root, const char *name) {
  if (mkdirat(root, name, 0700) != 0 && errno != EEXIST) return -1;
  return openat(root, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

recycled_files *recycled_files_open(const char *path) {
  recycled_files *files = calloc(1, sizeof *files);
  if (!files) return NULL;
  files->is_superuser = geteuid() == 0;
  files->root = open_directory(AT_FDCWD, path);
  files->bin = open_directory(files->root, ".recycled");
  files->control = openat(files->root, ".control", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  int result = files->root < 0 || files->bin < 0 || files->control < 0 ? -1 : 0;
  for (int i = 0; i < subdirectory_count; i++) {
    char name[3];
    snprintf(name, sizeof name, "%02x", i);
    files->subdirectories[i] = open_directory(files->root, name);
    if (files->subdirectories[i] < 0) result = -1;
  }
  pthread_mutex_init(&files->lock, NULL);
  if (result == 0) return files;
  int error = errno;
  recycled_files_close(files);
  errno = error;
  return NULL;
}

void recycled_files_close(recycled_files *files) {
  for (int i = 0; i < subdirectory_count; i++) close(files->subdirectories[i]);
  close(files->control);
  close(files->bin);
  close(files->root);
  pthread_mutex_destroy(&files->lock);
  free(files);
}

static int hexadecimal(char digit) { return digit <= '9' ? digit - '0' : digit - 'a' + 10; }

static int subdirectory_of(const recycled_files *files, const raw_key *key) {
  return files->subdirectories[hexadecimal(key->text[0]) * 16 + hexadecimal(key->text[1])];
}

// MARK: - Stripes

/// Returns the key's stripe, one of 4096 as in the store, by digits that do not select the subdirectory.
static off_t stripe_of(const raw_key *key) {
  return hexadecimal(key->text[2]) * 256 + hexadecimal(key->text[3]) * 16 + hexadecimal(key->text[4]);
}

static int lock_stripe(const recycled_files *files, const raw_key *key) {
  struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = stripe_of(key), .l_len = 1};
  struct stat status;
  if (fcntl(files->control, F_OFD_SETLK, &lock) != 0) return -1;
  return fstat(files->control, &status);
}

static int unlock_stripe(const recycled_files *files, const raw_key *key) {
  struct flock lock = {.l_type = F_UNLCK, .l_whence = SEEK_SET, .l_start = stripe_of(key), .l_len = 1};
  return fcntl(files->control, F_OFD_SETLK, &lock);
}

// MARK: - Dead files

/// A name that is as long as the store's names of dead files, so that few of them share a block of the directory.
typedef struct dead_name {
  char text[2 + 16 + 224 + 1];
} dead_name;

static dead_name name_of(uint64_t number) {
  dead_name result;
  int count = snprintf(result.text, sizeof result.text, "f-%llx", (unsigned long long)number);
  memset(result.text + count, '-', 224);
  result.text[count + 224] = 0;
  return result;
}

/// Returns the first digits of the key, which are as good as a digest because the keys are random.
static uint64_t digest_of(const raw_key *key) {
  uint64_t result = 0;
  for (int i = 0; i < 16; i++) result = result << 4 | (uint64_t)hexadecimal(key->text[i]);
  return result;
}

/// Takes the file with the highest digest below `digest` from the last few files of a stack.
static bool pop(dead_stack *stack, uint64_t digest, uint64_t *number) {
  dead_file *last = stack->files + stack->count - 1, *highest = NULL;
  for (size_t i = 0; i < depth && i < stack->count; i++) {
    dead_file *file = last - i;
    if (file->digest < digest && (!highest || file->digest > highest->digest)) highest = file;
  }
  if (!highest) return false;
  *number = highest->number;
  *highest = *last;
  stack->count--;
  return true;
}

/// Takes a dead file with a lower digest than the key's, because a power cut could leave an older record of its key.
static bool take_dead(recycled_files *files, const raw_key *key, uint64_t *number) {
  uint64_t digest = digest_of(key);
  bool is_there = false;
  pthread_mutex_lock(&files->lock);
  for (int i = (int)(digest >> 58); i >= 0 && !is_there; i--) {
    is_there = files->dead[i].count > 0 && pop(&files->dead[i], digest, number);
  }
  if (is_there) files->dead_count--;
  pthread_mutex_unlock(&files->lock);
  return is_there;
}

/// Adds a dead file if there is room, and returns whether there was.
static bool put_dead(recycled_files *files, const raw_key *key, uint64_t number) {
  dead_file file = {.number = number, .digest = digest_of(key)};
  pthread_mutex_lock(&files->lock);
  bool has_room = files->dead_count < most_dead;
  if (has_room) {
    dead_stack *stack = &files->dead[file.digest >> 58];
    stack->files[stack->count++] = file;
    files->dead_count++;
  }
  pthread_mutex_unlock(&files->lock);
  return has_room;
}

static uint64_t new_number(recycled_files *files) {
  return atomic_fetch_add_explicit(&files->next_number, 1, memory_order_relaxed);
}

/// Opens and leases a dead file that no other process has open. Only this process has written to the files there.
static int open_dead(const recycled_files *files, const char *name) {
  struct stat status;
  int file = openat(files->bin, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_NOATIME | O_CLOEXEC);
  if (file < 0) return -1;
  if (flock(file, LOCK_EX | LOCK_NB) != 0 || fstat(file, &status) != 0 || flistxattr(file, NULL, 0) < 0) return -1;
  if (fcntl(file, F_SETSIG, SIGURG) != 0 || fcntl(file, F_SETLEASE, F_WRLCK) != 0) return -1;
  return file;
}

// MARK: - Records

static int write_record(int file, const char *record, size_t byte_count) {
  struct iovec parts[] = {
    {.iov_base = (void *)record, .iov_len = header_size},
    {.iov_base = (void *)(record + header_size), .iov_len = byte_count - header_size},
  };
  return pwritev(file, parts, 2, 0) == (ssize_t)byte_count ? 0 : -1;
}

static int open_record(const recycled_files *files, const raw_key *key, int access) {
  record_path path = path_of(key);
  struct open_how how = {
    .flags = (uint64_t)(access | O_NOFOLLOW | O_NONBLOCK | O_NOATIME | O_CLOEXEC),
    .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS,
  };
  return (int)syscall(SYS_openat2, files->root, path.text, &how, sizeof how);
}

/// Reads the status and the header of a record that is about to be replaced or removed.
static int look_at(const recycled_files *files, const raw_key *key) {
  struct stat status;
  char header[header_size];
  int file = open_record(files, key, O_RDONLY);
  if (file < 0 || fstat(file, &status) != 0) return -1;
  struct iovec part = {.iov_base = header, .iov_len = sizeof header};
  if (preadv(file, &part, 1, 0) != sizeof header) return -1;
  return close(file);
}

/// Stores a record in a new file, which has no name at first, because there is no dead file.
static int store_anew(recycled_files *files, const raw_key *key, const char *record, size_t byte_count) {
  struct stat status;
  int subdirectory = subdirectory_of(files, key);
  int file = openat(subdirectory, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (file < 0 || fstat(file, &status) != 0 || write_record(file, record, byte_count) != 0) return -1;
  char descriptor[32];
  snprintf(descriptor, sizeof descriptor, "/proc/self/fd/%d", file);
  if (lock_stripe(files, key) != 0) return -1;
  if (linkat(AT_FDCWD, descriptor, subdirectory, key->text, AT_SYMLINK_FOLLOW) != 0) return -1;
  if (unlock_stripe(files, key) != 0) return -1;
  return close(file);
}

int recycled_files_store(recycled_files *files, const raw_key *key, const void *record, size_t byte_count) {
  uint64_t number;
  if (!take_dead(files, key, &number)) return store_anew(files, key, record, byte_count);
  dead_name name = name_of(number);
  int file = open_dead(files, name.text);
  if (file < 0 || write_record(file, record, byte_count) != 0 || lock_stripe(files, key) != 0) return -1;
  if (fcntl(file, F_SETLEASE, F_UNLCK) != 0) return -1;
  int subdirectory = subdirectory_of(files, key);
  if (renameat2(files->bin, name.text, subdirectory, key->text, RENAME_NOREPLACE) != 0) return -1;
  if (unlock_stripe(files, key) != 0) return -1;
  return close(file);
}

int recycled_files_replace(recycled_files *files, const raw_key *key, const void *record, size_t byte_count) {
  uint64_t number;
  bool is_dead = take_dead(files, key, &number);
  if (!is_dead) number = new_number(files);
  dead_name name = name_of(number);
  int file = is_dead ? open_dead(files, name.text)
                     : openat(files->bin, name.text, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file < 0 || write_record(file, record, byte_count) != 0 || lock_stripe(files, key) != 0) return -1;
  if (look_at(files, key) != 0 || (is_dead && fcntl(file, F_SETLEASE, F_UNLCK) != 0)) return -1;
  if (renameat2(files->bin, name.text, subdirectory_of(files, key), key->text, RENAME_EXCHANGE) != 0) return -1;
  if (unlock_stripe(files, key) != 0) return -1;
  put_dead(files, key, number);
  return close(file);
}

/// Copies a payload into memory that would belong to the caller of a load, and frees the memory.
static int copy_payload(const char *payload, size_t byte_count) {
  char *copy = malloc(byte_count);
  if (!copy) return -1;
  memcpy(copy, payload, byte_count);
  // Prevents the compiler from omitting the copy.
  __asm__ volatile("" : : "r"(copy) : "memory");
  free(copy);
  return 0;
}

/// Reads a payload directly into the memory for it, and the header into other memory, with one call.
static int read_large(int file, size_t byte_count) {
  char header[header_size];
  char *payload = malloc(byte_count);
  if (!payload) return -1;
  struct iovec parts[] = {
    {.iov_base = header, .iov_len = sizeof header}, {.iov_base = payload, .iov_len = byte_count}};
  ssize_t read_count = preadv(file, parts, 2, 0);
  free(payload);
  return read_count == (ssize_t)(header_size + byte_count) ? 0 : -1;
}

/// Like the store, reads the status of each file for the superuser, who needs the owner of the file. Other users need
/// only the size, and only if the file is not small.
int recycled_files_load(recycled_files *files, const raw_key *key) {
  struct stat status;
  char start[header_size + small_payload + 1];
  int file = open_record(files, key, O_RDONLY);
  if (file < 0) return errno == ENOENT ? 0 : -1;
  bool asks = files->is_superuser || atomic_load_explicit(&files->was_large, memory_order_relaxed);
  if (asks && fstat(file, &status) != 0) return -1;
  if (!asks || status.st_size < (off_t)sizeof start) {
    ssize_t read_count = pread(file, start, asks ? (size_t)status.st_size : sizeof start, 0);
    if (read_count < header_size) return -1;
    if (read_count < (ssize_t)sizeof start) {
      if (copy_payload(start + header_size, (size_t)read_count - header_size) != 0) return -1;
      atomic_store_explicit(&files->was_large, false, memory_order_relaxed);
      return close(file) == 0 ? 1 : -1;
    }
    if (fstat(file, &status) != 0) return -1;
  }
  atomic_store_explicit(&files->was_large, true, memory_order_relaxed);
  if (read_large(file, (size_t)status.st_size - header_size) != 0) return -1;
  return close(file) == 0 ? 1 : -1;
}

int recycled_files_load_touching(recycled_files *files, const raw_key *key) {
  struct stat status;
  char header[header_size];
  struct iovec part = {.iov_base = header, .iov_len = sizeof header};
  int found = recycled_files_load(files, key);
  if (found != 1) return found;
  if (lock_stripe(files, key) != 0) return -1;
  int file = open_record(files, key, O_RDWR);
  if (file < 0 || fstat(file, &status) != 0) return -1;
  if (preadv(file, &part, 1, 0) != sizeof header || pwritev(file, &part, 1, 0) != sizeof header) return -1;
  if (close(file) != 0 || unlock_stripe(files, key) != 0) return -1;
  return 1;
}

int recycled_files_remove(recycled_files *files, const raw_key *key) {
  if (lock_stripe(files, key) != 0 || look_at(files, key) != 0) return -1;
  int subdirectory = subdirectory_of(files, key);
  uint64_t number = new_number(files);
  dead_name name = name_of(number);
  bool has_room = renameat(subdirectory, key->text, files->bin, name.text) == 0 && put_dead(files, key, number);
  if (!has_room && unlinkat(files->bin, name.text, 0) != 0) return -1;
  return unlock_stripe(files, key);
}

#endif
