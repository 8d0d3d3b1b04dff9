// Keeps a forked child from sharing the locks of its parent.
//
// A lock of flock(2) or F_OFD_SETLK, and a lease, belong to an open file description, which a child shares. They last
// until the last descriptor of it is closed and the last mapping of it undone. A child that lives on would hold the
// locks of a parent that has died.
//
// So this code knows the descriptors that may be locked, and the mappings. A child gives up its copies before fork(2)
// returns in it. A child of vfork(2) or posix_spawn(3) gives them up when it executes its program (O_CLOEXEC).

#ifndef BLOB_FORKED_CHILDREN_H
#define BLOB_FORKED_CHILDREN_H

#include <stddef.h>

/// Begins to open or close what may be locked. No fork happens until it ends. Pairs must not nest.
void blob_begin_lockable_change(void);
void blob_end_lockable_change(void);

/// Remembers a descriptor that may be locked, after the call that opened it.
///
/// Call it between begin and end.
void blob_note_lockable(int descriptor);

/// Forgets a descriptor, between begin and end, before the call that closes it.
void blob_forget_lockable(int descriptor);

/// Whether a descriptor is one that may be locked. Its owner asks, so the answer stays true.
int blob_is_lockable(int descriptor);

/// Remembers a shared mapping of such a file. In a forked child, private zeros take its place. Where there is no memory to remember
/// it, a child keeps the mapping.
void blob_note_mapping(void *base, size_t length);

/// Undoes a mapping: munmap(2).
void blob_unmap(void *base, size_t length);

/// How many forks lie between this process and the one that loaded the library.
///
/// It is constant for the life of a process, and costs no system call.
int blob_fork_count(void);

#endif
