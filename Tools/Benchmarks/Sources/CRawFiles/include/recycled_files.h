// The system calls of the store's own operations with recycled files, as Spec/Performance.md lists them, in C. The
// store's work between them is left out: checksums, escaping of keys, errors with an explanation. No store that makes
// these calls takes less time.
//
// Only Linux has the leases. Functions answer -1 with errno set when a call fails.

#if defined(__linux__) && !defined(RECYCLED_FILES_H)
#define RECYCLED_FILES_H

#include "raw_files.h"

/// A directory whose dead files wait in another one to be overwritten. All records are of one size. Any thread may use
/// it; no other process does.
typedef struct recycled_files recycled_files;

/// Makes what is not there yet, and keeps the root and all subdirectories open. NULL with errno set where that fails.
recycled_files *recycled_files_open(const char *path);

void recycled_files_close(recycled_files *files);

/// Overwrites a dead file, or makes one if none is left, and gives it its name. The record is the header and the bytes
/// after it.
int recycled_files_store(recycled_files *files, const raw_key *key, const void *record, size_t byte_count);

/// Stores in exchange for the file that has the name, which must be there.
int recycled_files_replace(recycled_files *files, const raw_key *key, const void *record, size_t byte_count);

/// Opens, takes the size, reads into memory allocated for it, closes, frees. Answers the number of records found.
int recycled_files_load(recycled_files *files, const raw_key *key);

/// Loads; then opens again under the lock of its stripe, reads the header, and writes it.
int recycled_files_load_touching(recycled_files *files, const raw_key *key);

/// Moves the file, which must be there, to the dead ones.
int recycled_files_remove(recycled_files *files, const raw_key *key);

#endif
