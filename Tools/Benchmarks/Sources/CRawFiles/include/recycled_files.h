// The system calls of the store's operations with recycled files, as Spec/Performance.md lists them, in C. The store's
// work between the calls is omitted: checksums, escaping of keys, and detailed errors. So no store that makes these
// calls can need less time.
//
// Only Linux has leases. Functions return -1 with errno set if a call fails.

#if defined(__linux__) && !defined(RECYCLED_FILES_H)
#define RECYCLED_FILES_H

#include "raw_files.h"

/// A directory of records whose dead files are kept in a bin until they are overwritten. All records have the same
/// size. Any thread may use it, but no other process.
typedef struct recycled_files recycled_files;

/// Creates missing directories, and keeps the root and all subdirectories open. Returns NULL with errno set on failure.
recycled_files *recycled_files_open(const char *path);

void recycled_files_close(recycled_files *files);

/// Overwrites a dead file, or creates a file if there is no dead one, and gives it the name of the key. `record` is
/// the header and the payload.
int recycled_files_store(recycled_files *files, const raw_key *key, const void *record, size_t byte_count);

/// Stores a record and exchanges its file with the existing file of the key, which then is a dead file.
int recycled_files_replace(recycled_files *files, const raw_key *key, const void *record, size_t byte_count);

/// Reads a file, and copies its payload into newly allocated memory. Returns 1 if the file exists, 0 if it does not.
int recycled_files_load(recycled_files *files, const raw_key *key);

/// Loads a record, then opens its file again under the lock of its stripe, reads the header, and writes it.
int recycled_files_load_touching(recycled_files *files, const raw_key *key);

/// Moves the file of the key, which must exist, to the dead files.
int recycled_files_remove(recycled_files *files, const raw_key *key);

#endif
