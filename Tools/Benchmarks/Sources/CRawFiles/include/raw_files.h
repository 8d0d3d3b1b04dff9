// The work of a blob cache in raw system calls: what the store is measured against.
//
// Loops are in C, names are built on the stack, and only the kernel checks anything. So no store in any language does
// the work in less. Records lie as the store lays them out: below the root in a subdirectory named by the first two
// characters of the key.
//
// Functions answer -1 with errno set when a call fails.

#ifndef RAW_FILES_H
#define RAW_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/// Forty hexadecimal digits at the most, like a SHA-1, and zeros.
typedef struct raw_key {
  char text[41];
} raw_key;

/// The keys number `first` to `first + count` of an endless sequence, cut to so many digits. From sixteen digits on it
/// has no repetitions.
void raw_make_keys(uint64_t first, size_t count, size_t digits, raw_key *keys);

/// Makes the directory and the 256 subdirectories that keys name, and opens it.
int raw_open_root(const char *path);

int raw_close(int root);

/// Creates a temporary file, writes the record, closes, and renames it to its place: new, or over an old record.
///
/// `checksums` adds one CRC-32 pass of zlib's over what is written after the header.
int raw_store(int root, const raw_key *keys, size_t count, const void *record, size_t byte_count, bool checksums);

/// Opens, takes the size, reads into memory allocated for it, closes, frees.
///
/// Answers the number of records found; with `checksums`, one CRC-32 pass of zlib's is made over each payload.
int64_t raw_load(int root, const raw_key *keys, size_t count, bool checksums);

/// Opens, reads the 64 bytes of the header, writes them, closes.
int raw_rewrite_headers(int root, const raw_key *keys, size_t count);

int raw_remove(int root, const raw_key *keys, size_t count);

/// Reads every subdirectory, opens each file, reads the 64 bytes of its header, closes.
///
/// Answers the number of files.
int64_t raw_enumerate(int root);

/// Creates records of a header and a payload that is a hole of `payload_size` bytes: many, fast.
int raw_populate(
  int root, const raw_key *keys, size_t count, const void *header, size_t header_size, uint64_t payload_size);

/// Copies a file by reads and writes of `piece_size` bytes, behind a gap of `offset` bytes in the new one.
int raw_copy(const char *from, const char *to, size_t piece_size, uint64_t offset);

/// Copies a file by copy_file_range(2), from an offset in the old one, behind a gap in the new one.
///
/// With `checksums`, one CRC-32 pass of zlib's is made over what is copied, through a mapping. ENOSYS where there is no such call.
int raw_kernel_copy(const char *from, uint64_t from_offset, const char *to, uint64_t to_offset, bool checksums);

/// Opens, reads `count` bytes at an offset into memory allocated for them, closes, frees.
int64_t raw_range(const char *path, size_t count, uint64_t offset);

/// Reads `count` bytes at an offset of an open file into memory allocated for them, and frees it.
int64_t raw_pread(int file, size_t count, uint64_t offset);

/// What a stripe costs that is a byte: locks one of 4096 bytes, asks for the file's status, and unlocks the byte, `count`
/// times. The locks are the open file's. ENOSYS where there are none.
int raw_lock_bytes(int file, size_t count);

/// Writes what the volume that holds the directory has in memory to its medium; on macOS, asks for it.
int raw_sync(int root);

/// Writes bytes at an offset of an open file, and brings them to the medium: fdatasync(2), on macOS F_FULLFSYNC.
int raw_write_synced(int file, const void *bytes, size_t count, uint64_t offset);

/// The name of the file system that holds the directory, or its number in hexadecimal; lives until the next call.
const char *raw_file_system(int root);

#endif
