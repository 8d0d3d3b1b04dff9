// Keeps a forked child from sharing the locks of its parent.
//
// Locks of flock(2) and F_OFD_SETLK, and leases, belong to an open file description, which a forked child shares. They
// last until the last descriptor of the description is closed and its last mapping is removed. So a child that outlives
// its parent would keep the locks of the parent.
//
// This code therefore records the descriptors that may be locked, and the mappings. A child closes its copies before
// fork(2) returns in it. A child of vfork(2) or posix_spawn(3) closes them when it executes its program (O_CLOEXEC).

#ifndef BLOB_FORKED_CHILDREN_H
#define BLOB_FORKED_CHILDREN_H

#include <stddef.h>

/// Begins a lockable change: opening or closing a descriptor that may be locked. No fork happens until the change ends.
/// Lockable changes of a thread must not nest.
void blob_begin_lockable_change(void);
void blob_end_lockable_change(void);

/// Notes a descriptor that may be locked, after the call that opened it and within the same lockable change.
void blob_note_lockable(int descriptor);

/// Removes the note of a descriptor, before the call that closes it and within the same lockable change.
void blob_forget_lockable(int descriptor);

/// Returns 1 if a descriptor was noted as lockable, 0 if not. Only the owner of the descriptor may call
/// it, so that the result stays valid.
int blob_is_lockable(int descriptor);

/// Notes a shared mapping of such a file. In a forked child, private zeros replace the mapping. If there is not enough
/// memory for the note, a child keeps the mapping.
void blob_note_mapping(void *base, size_t length);

/// Removes a mapping with munmap(2), and its note.
void blob_unmap(void *base, size_t length);

/// Returns the number of forks between the process that loaded the library and this one.
/// The number is constant for the life of a process, and reading it takes no system call.
int blob_fork_count(void);

#endif
