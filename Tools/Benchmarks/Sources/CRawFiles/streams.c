#define _GNU_SOURCE
#include "include/raw_files.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

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
