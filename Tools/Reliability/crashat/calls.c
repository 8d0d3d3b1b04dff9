#if defined(__linux__)

#define _GNU_SOURCE
#include "calls.h"

#include <sys/syscall.h>

#define LOOK(name, place) {SYS_##name, #name, place, EFFECT_LOOK, AMOUNT_NONE, 0}
#define CHANGE(name, place) {SYS_##name, #name, place, EFFECT_CHANGE, AMOUNT_NONE, 0}
#define SYNC(name) {SYS_##name, #name, PLACE_DESCRIPTOR, EFFECT_SYNC, AMOUNT_NONE, 0}
#define LOCK(name) {SYS_##name, #name, PLACE_DESCRIPTOR, EFFECT_LOCK, AMOUNT_NONE, 0}
#define WAIT(name) {SYS_##name, #name, PLACE_NONE, EFFECT_WAIT, AMOUNT_NONE, 0}
#define READ(name, amount, offset) {SYS_##name, #name, PLACE_DESCRIPTOR, EFFECT_READ, amount, offset}
#define WRITE(name, amount, offset) {SYS_##name, #name, PLACE_DESCRIPTOR, EFFECT_WRITE, amount, offset}

const struct call calls[] = {
  // Whether an open may change something depends on its flags: see tracer.c.
  LOOK(openat, PLACE_AT),
  LOOK(openat2, PLACE_AT),
  LOOK(close, PLACE_DESCRIPTOR),
  LOOK(fstat, PLACE_DESCRIPTOR),
  LOOK(newfstatat, PLACE_AT),
  LOOK(statx, PLACE_AT),
  LOOK(fstatfs, PLACE_DESCRIPTOR),
  LOOK(statfs, PLACE_PATH),
  LOOK(faccessat, PLACE_AT),
#if defined(SYS_faccessat2)
  LOOK(faccessat2, PLACE_AT),
#endif
  LOOK(readlinkat, PLACE_AT),
  LOOK(getdents64, PLACE_DESCRIPTOR),
  LOOK(mmap, PLACE_MAPPED),

  READ(read, AMOUNT_BYTES, 0),
  READ(pread64, AMOUNT_BYTES, 3),
  READ(readv, AMOUNT_VECTORS, 0),
  READ(preadv, AMOUNT_VECTORS, 3),
  READ(preadv2, AMOUNT_VECTORS, 3),
  WRITE(write, AMOUNT_BYTES, 0),
  WRITE(pwrite64, AMOUNT_BYTES, 3),
  WRITE(writev, AMOUNT_VECTORS, 0),
  WRITE(pwritev, AMOUNT_VECTORS, 3),
  WRITE(pwritev2, AMOUNT_VECTORS, 3),
  {SYS_copy_file_range, "copy_file_range", PLACE_TWO_DESCRIPTORS, EFFECT_CHANGE, AMOUNT_NONE, 0},
  CHANGE(sendfile, PLACE_DESCRIPTOR),

  CHANGE(mkdirat, PLACE_AT),
  CHANGE(unlinkat, PLACE_AT),
#if defined(SYS_renameat)
  CHANGE(renameat, PLACE_TWO_AT),
#endif
  CHANGE(renameat2, PLACE_TWO_AT),
  CHANGE(linkat, PLACE_TWO_AT),
  CHANGE(symlinkat, PLACE_LINK_AT),
  CHANGE(ftruncate, PLACE_DESCRIPTOR),
  CHANGE(fallocate, PLACE_DESCRIPTOR),
  CHANGE(fchmod, PLACE_DESCRIPTOR),
  CHANGE(fchmodat, PLACE_AT),
  CHANGE(fchown, PLACE_DESCRIPTOR),
  CHANGE(fchownat, PLACE_AT),
  CHANGE(utimensat, PLACE_AT),

  SYNC(fsync),
  SYNC(fdatasync),
  SYNC(sync_file_range),

  // Only the commands of fcntl for locks and leases are counted: see tracer.c.
  LOCK(fcntl),
  LOCK(flock),

  WAIT(nanosleep),
  WAIT(clock_nanosleep),

// Calls that kernels for newer architectures omit, because the calls above can do the same.
#if defined(SYS_open)
  LOOK(open, PLACE_PATH),
  LOOK(stat, PLACE_PATH),
  LOOK(lstat, PLACE_PATH),
  LOOK(access, PLACE_PATH),
  LOOK(readlink, PLACE_PATH),
  LOOK(getdents, PLACE_DESCRIPTOR),
  CHANGE(creat, PLACE_PATH),
  CHANGE(mkdir, PLACE_PATH),
  CHANGE(rmdir, PLACE_PATH),
  CHANGE(unlink, PLACE_PATH),
  CHANGE(rename, PLACE_TWO_PATHS),
  CHANGE(link, PLACE_TWO_PATHS),
  CHANGE(symlink, PLACE_TWO_PATHS),
  CHANGE(chmod, PLACE_PATH),
  CHANGE(chown, PLACE_PATH),
  CHANGE(lchown, PLACE_PATH),
#endif
  CHANGE(truncate, PLACE_PATH),
};

const size_t call_count = sizeof calls / sizeof *calls;

const struct call *find_call(long number) {
  for (size_t i = 0; i < call_count; i++) {
    if (calls[i].number == number) return &calls[i];
  }
  return NULL;
}

const char *effect_name(enum effect effect) {
  static const char *const names[] = {"look", "read", "write", "change", "sync", "lock", "wait"};
  return names[effect];
}

#endif
