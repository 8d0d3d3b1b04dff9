#define _GNU_SOURCE
#include "include/raw_files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

int raw_copy(const char *from, const char *to, size_t piece_size, uint64_t offset) {
  int input = open(from, O_RDONLY | O_CLOEXEC);
  if (input == -1) return -1;
  int output = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  char *piece = malloc(piece_size);
  ssize_t count = -1;
  if (output != -1 && piece) {
    while ((count = read(input, piece, piece_size)) > 0) {
      if (pwrite(output, piece, (size_t)count, (off_t)offset) != count) {
        count = -1;
        break;
      }
      offset += (uint64_t)count;
    }
  }
  free(piece);
  if (output != -1 && close(output) == -1) count = -1;
  close(input);
  return count == 0 ? 0 : -1;
}

int64_t raw_pread(int file, size_t count, uint64_t offset) {
  char *bytes = malloc(count);
  if (!bytes) return -1;
  ssize_t read_count = pread(file, bytes, count, (off_t)offset);
  free(bytes);
  return read_count;
}

int64_t raw_range(const char *path, size_t count, uint64_t offset) {
  int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file == -1) return -1;
  int64_t read_count = raw_pread(file, count, offset);
  close(file);
  return read_count;
}

#ifdef __linux__
// Maps one mebibyte at a time, so that the mapping adds little to the memory of the process.
static int checksum_file(int file, uint64_t offset, uint64_t size) {
  const uint64_t window = 1 << 20;
  uLong crc = crc32(0, Z_NULL, 0);
  for (uint64_t start = 0; start < size; start += window) {
    uint64_t count = size - start < window ? size - start : window;
    unsigned char *bytes = mmap(NULL, count, PROT_READ, MAP_SHARED | MAP_POPULATE, file, (off_t)start);
    if (bytes == MAP_FAILED) return -1;
    uint64_t skipped = start == 0 ? offset : 0;
    crc = crc32(crc, bytes + skipped, (uInt)(count - skipped));
    munmap(bytes, count);
  }
  // Prevents the compiler from omitting the computation.
  volatile uLong sum = crc;
  (void)sum;
  return 0;
}
#endif

int raw_kernel_copy(const char *from, uint64_t from_offset, const char *to, uint64_t to_offset, bool checksums) {
#ifdef __linux__
  int input = open(from, O_RDONLY | O_CLOEXEC);
  if (input == -1) return -1;
  int output = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  struct stat status;
  if (output == -1 || fstat(input, &status) == -1) return -1;
  loff_t in = (loff_t)from_offset, out = (loff_t)to_offset;
  while (in < status.st_size) {
    ssize_t count = copy_file_range(input, &in, output, &out, (size_t)(status.st_size - in), 0);
    if (count == -1 && errno == EINTR) continue;
    if (count <= 0) return -1;
  }
  if (checksums && checksum_file(input, from_offset, (uint64_t)status.st_size) == -1) return -1;
  close(input);
  return close(output);
#else
  errno = ENOSYS;
  return -1;
#endif
}
