#if defined(__linux__)

#define _GNU_SOURCE
#include "serve.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "log.h"

enum { MOST_WRITTEN = 128 << 10, REQUEST_SIZE = MOST_WRITTEN + 4096 };

static int connection;
static char *disk;
static uint64_t disk_size;

// MARK: - Answers

static bool answer(const struct fuse_in_header *request, int error, const void *bytes, size_t length) {
  struct fuse_out_header header = {(uint32_t)(sizeof header + length), -error, request->unique};
  struct iovec parts[2] = {{&header, sizeof header}, {(void *)bytes, length}};
  // ENOENT: the request was cancelled before this answer.
  return writev(connection, parts, length > 0 ? 2 : 1) >= 0 || errno == ENOENT;
}

static bool answer_init(const struct fuse_in_header *request, const struct fuse_init_in *asked) {
  struct fuse_init_out init = {
    .major = FUSE_KERNEL_VERSION,
    .minor = asked->minor < FUSE_KERNEL_MINOR_VERSION ? asked->minor : FUSE_KERNEL_MINOR_VERSION,
    .max_readahead = asked->max_readahead,
    .flags = FUSE_BIG_WRITES,
    .max_background = 16,
    .congestion_threshold = 12,
    .max_write = MOST_WRITTEN,
  };
  return answer(request, 0, &init, sizeof init);
}

static bool answer_attributes(const struct fuse_in_header *request) {
  struct fuse_attr_out attributes = {
    .attr_valid = 3600,
    .attr = {.ino = FUSE_ROOT_ID, .size = disk_size, .blocks = disk_size / 512, .mode = S_IFREG | 0600, .nlink = 1,
             .blksize = 4096},
  };
  return answer(request, 0, &attributes, sizeof attributes);
}

static bool answer_read(const struct fuse_in_header *request, const struct fuse_read_in *asked) {
  uint64_t offset = asked->offset < disk_size ? asked->offset : disk_size;
  uint64_t length = asked->size < disk_size - offset ? asked->size : disk_size - offset;
  return answer(request, 0, disk + offset, length);
}

static bool answer_write(const struct fuse_in_header *request, const struct fuse_write_in *asked) {
  if (asked->offset > disk_size || asked->size > disk_size - asked->offset) return answer(request, ENOSPC, NULL, 0);
  const void *bytes = asked + 1;
  memcpy(disk + asked->offset, bytes, asked->size);
  if (!log_append(LOG_WRITE, asked->offset, bytes, asked->size)) return answer(request, EIO, NULL, 0);
  struct fuse_write_out written = {.size = asked->size};
  return answer(request, 0, &written, sizeof written);
}

static bool answer_flush(const struct fuse_in_header *request) {
  return answer(request, log_append(LOG_FLUSH, 0, NULL, 0) ? 0 : EIO, NULL, 0);
}

static bool answer_one(const struct fuse_in_header *request) {
  const void *body = request + 1;
  switch (request->opcode) {
    case FUSE_INIT: return answer_init(request, body);
    case FUSE_GETATTR:
    case FUSE_SETATTR: return answer_attributes(request);
    case FUSE_OPEN: {
      struct fuse_open_out opened = {0};
      return answer(request, 0, &opened, sizeof opened);
    }
    case FUSE_READ: return answer_read(request, body);
    case FUSE_WRITE: return answer_write(request, body);
    case FUSE_FSYNC: return answer_flush(request);
    case FUSE_FLUSH:
    case FUSE_RELEASE:
    case FUSE_ACCESS: return answer(request, 0, NULL, 0);
    case FUSE_STATFS: {
      struct fuse_statfs_out volume = {.st = {.bsize = 4096, .frsize = 4096, .namelen = 255}};
      return answer(request, 0, &volume, sizeof volume);
    }
    case FUSE_FORGET:
    case FUSE_BATCH_FORGET:
    case FUSE_INTERRUPT: return true;
    case FUSE_FALLOCATE: return answer(request, EOPNOTSUPP, NULL, 0);
    default: return answer(request, ENOSYS, NULL, 0);
  }
}

// MARK: - Service

static bool map_image(const char *image) {
  int file = open(image, O_RDWR | O_CLOEXEC);
  struct stat status;
  if (file < 0 || fstat(file, &status) != 0) return false;
  disk_size = (uint64_t)status.st_size;
  disk = mmap(NULL, disk_size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  return disk != MAP_FAILED;
}

static bool mount_over(const char *file) {
  connection = open("/dev/fuse", O_RDWR | O_CLOEXEC);
  if (connection < 0) return false;
  char options[96];
  snprintf(options, sizeof options, "fd=%d,rootmode=100600,user_id=0,group_id=0,allow_other", connection);
  return mount("blocklog", file, "fuse", MS_NOSUID | MS_NODEV, options) == 0;
}

bool serve(const char *image, const char *file) {
  char *request = malloc(REQUEST_SIZE);
  if (request == NULL || !map_image(image) || !mount_over(file)) {
    perror("blocklog");
    return false;
  }
  puts("ready");
  fflush(stdout);
  while (true) {
    ssize_t length = read(connection, request, REQUEST_SIZE);
    if (length < 0 && (errno == EINTR || errno == EAGAIN || errno == ENOENT)) continue;
    // The file was unmounted.
    if (length < 0 && errno == ENODEV) break;
    if (length < (ssize_t)sizeof(struct fuse_in_header) || !answer_one((const struct fuse_in_header *)request)) {
      perror("blocklog: /dev/fuse");
      return false;
    }
  }
  free(request);
  return true;
}

#endif
