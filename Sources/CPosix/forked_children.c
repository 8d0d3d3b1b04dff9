#if defined(__linux__)
#define _GNU_SOURCE
#endif

#include "include/forked_children.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

// One bit for each descriptor. Linux allows 1,048,576 descriptors unless fs.nr_open is changed. Pages of the array that
// are never written take no memory.
enum { DESCRIPTORS = 1 << 20, BITS = 64 };
static _Atomic uint64_t lockable[DESCRIPTORS / BITS];
// One more than the index of the highest word that has ever had a bit set, at which the search of a child ends.
static atomic_int words_used;

// The number of threads that are about to fork, and the number of threads within a lockable change. Each kind of thread
// waits for the other, because a child must see each lockable descriptor either open and noted, or neither.
static atomic_int forking;
static atomic_int changing;

// The noted mappings, in no particular order. Changed only within a lockable change, with `mappings_lock` held.
struct mapping {
  void *base;
  size_t length;
  struct mapping *next;
};
static struct mapping *mappings;
static atomic_flag mappings_lock = ATOMIC_FLAG_INIT;

static int fork_count;

void blob_begin_lockable_change(void) {
  while (1) {
    atomic_fetch_add(&changing, 1);
    if (atomic_load(&forking) == 0) return;
    atomic_fetch_sub(&changing, 1);
    while (atomic_load(&forking) != 0) sched_yield();
  }
}

void blob_end_lockable_change(void) { atomic_fetch_sub(&changing, 1); }

static int is_known(int descriptor) { return descriptor >= 0 && descriptor < DESCRIPTORS; }

void blob_note_lockable(int descriptor) {
  if (!is_known(descriptor)) return;
  int word = descriptor / BITS;
  atomic_fetch_or(&lockable[word], UINT64_C(1) << (descriptor % BITS));
  int used = atomic_load(&words_used);
  while (used <= word && !atomic_compare_exchange_weak(&words_used, &used, word + 1)) {
  }
}

void blob_forget_lockable(int descriptor) {
  if (is_known(descriptor)) atomic_fetch_and(&lockable[descriptor / BITS], ~(UINT64_C(1) << (descriptor % BITS)));
}

int blob_is_lockable(int descriptor) {
  if (!is_known(descriptor)) return 0;
  return (atomic_load_explicit(&lockable[descriptor / BITS], memory_order_relaxed) >> (descriptor % BITS)) & 1;
}

static void lock_mappings(void) {
  blob_begin_lockable_change();
  while (atomic_flag_test_and_set(&mappings_lock)) sched_yield();
}

static void unlock_mappings(void) {
  atomic_flag_clear(&mappings_lock);
  blob_end_lockable_change();
}

void blob_note_mapping(void *base, size_t length) {
  struct mapping *noted = malloc(sizeof *noted);
  if (noted == NULL) return;
  lock_mappings();
  *noted = (struct mapping){.base = base, .length = length, .next = mappings};
  mappings = noted;
  unlock_mappings();
}

void blob_unmap(void *base, size_t length) {
  lock_mappings();
  struct mapping **place = &mappings;
  while (*place != NULL && (*place)->base != base) place = &(*place)->next;
  struct mapping *noted = *place;
  if (noted != NULL) *place = noted->next;
  munmap(base, length);
  unlock_mappings();
  free(noted);
}

static void before_fork(void) {
  atomic_fetch_add(&forking, 1);
  while (atomic_load(&changing) != 0) sched_yield();
}

static void after_fork_in_parent(void) { atomic_fetch_sub(&forking, 1); }

// Closes the child's copy of a descriptor, but keeps its number in use for the placeholder. Otherwise the owner of the
// descriptor, which closes that number later, could close a file that the child has opened since.
static void give_up(int descriptor, int placeholder) {
  if (placeholder >= 0) {
#if defined(__linux__)
    dup3(placeholder, descriptor, O_CLOEXEC);
#else
    dup2(placeholder, descriptor);
    fcntl(descriptor, F_SETFD, FD_CLOEXEC);
#endif
  } else {
    close(descriptor);
  }
}

// Makes only async-signal-safe calls, because other threads may have held any lock of the C library during the fork.
static void after_fork_in_child(void) {
  int previous = errno;
  fork_count += 1;
  atomic_store(&forking, 0);
  atomic_store(&changing, 0);
  int placeholder = -2;
  int words = atomic_load(&words_used);
  for (int word = 0; word < words; word++) {
    uint64_t bits = atomic_exchange(&lockable[word], 0);
    while (bits != 0) {
      int descriptor = word * BITS + __builtin_ctzll(bits);
      bits &= bits - 1;
      if (placeholder == -2) placeholder = open("/dev/null", O_RDWR | O_CLOEXEC);
      if (placeholder < 0) placeholder = open("/", O_RDONLY | O_CLOEXEC);
      give_up(descriptor, placeholder);
    }
  }
  if (placeholder >= 0) close(placeholder);
  for (struct mapping *each = mappings; each != NULL; each = each->next) {
    mmap(each->base, each->length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANON | MAP_FIXED, -1, 0);
  }
  errno = previous;
}

__attribute__((constructor)) static void watch_forks(void) {
  pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

int blob_fork_count(void) { return fork_count; }
