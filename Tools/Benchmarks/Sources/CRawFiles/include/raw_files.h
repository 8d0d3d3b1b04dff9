// The work of a blob cache in raw system calls: the baseline that the store is compared with.
//
// Loops are in C, names are built on the stack, and only the kernel checks anything. So no store in any language can
// need less time. Records have the same paths as in the store: below the root, in a subdirectory named by the first two
// characters of the key.
//
// Functions return -1 with errno set if a call fails.

#ifndef RAW_FILES_H
#define RAW_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/// At most forty hexadecimal digits, like a SHA-1, followed by zeros.
typedef struct raw_key {
  char text[41];
} raw_key;

/// Makes the keys number `first` to `first + count` of an endless sequence, with `digits` digits each. With at least
/// sixteen digits, the sequence has no repetitions.
void raw_make_keys(uint64_t first, size_t count, size_t digits, raw_key *keys);

/// Creates the directory and its 256 subdirectories, which the first two characters of keys name, and opens it.
int raw_open_root(const char *path);

int raw_close(int root);

/// Creates a temporary file, writes the record, closes the file, and renames it to the key's name, over an old record.
///
/// `checksums` adds one CRC-32 pass by zlib over the bytes after the header.
int raw_store(int root, const raw_key *keys, size_t count, const void *record, size_t byte_count, bool checksums);

/// Opens each file, reads its size and its bytes into newly allocated memory, closes it, and frees the memory.
///
/// Returns the number of records found. `checksums` adds one CRC-32 pass by zlib over each payload.
int64_t raw_load(int root, const raw_key *keys, size_t count, bool checksums);

/// Opens each file, reads the 64 bytes of its header, writes them back, and closes it.
int raw_rewrite_headers(int root, const raw_key *keys, size_t count);

int raw_remove(int root, const raw_key *keys, size_t count);

/// Reads every subdirectory, opens each file, reads the 64 bytes of its header, and closes it.
///
/// Returns the number of files.
int64_t raw_enumerate(int root);

/// Quickly creates many records, each with a header and a payload that is a hole of `payload_size` bytes.
int raw_populate(
  int root, const raw_key *keys, size_t count, const void *header, size_t header_size, uint64_t payload_size);

/// Copies a file by reads and writes of `piece_size` bytes, to offset `offset` in the new file.
int raw_copy(const char *from, const char *to, size_t piece_size, uint64_t offset);

/// Copies a file by copy_file_range(2), from an offset in the old file to an offset in the new one.
///
/// `checksums` adds one CRC-32 pass by zlib over the copied bytes, through a mapping. ENOSYS on systems except Linux.
int raw_kernel_copy(const char *from, uint64_t from_offset, const char *to, uint64_t to_offset, bool checksums);

/// Opens a file, reads `count` bytes at an offset into newly allocated memory, closes the file, and frees the memory.
int64_t raw_range(const char *path, size_t count, uint64_t offset);

/// Reads `count` bytes at an offset of an open file into newly allocated memory, and frees the memory.
int64_t raw_pread(int file, size_t count, uint64_t offset);

/// Makes the system calls of a stripe that is a byte lock, `count` times: locks one of 4096 bytes, reads the file's
/// status, and unlocks the byte. The locks belong to the open file description. ENOSYS on systems without such locks.
int raw_lock_bytes(int file, size_t count);

/// Writes all unwritten data of the directory's volume to its medium. On macOS, the call only starts the writes.
int raw_sync(int root);

/// Writes bytes at an offset of an open file, and syncs them to the medium: fdatasync(2); F_FULLFSYNC on macOS.
int raw_write_synced(int file, const void *bytes, size_t count, uint64_t offset);

/// Returns the name of the directory's file system, or its number in hexadecimal; valid until the next call.
const char *raw_file_system(int root);

#endif
