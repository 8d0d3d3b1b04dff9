#if defined(__linux__) && (defined(__x86_64__) || defined(__aarch64__))

#define _GNU_SOURCE
#include "tracer.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "calls.h"
#include "commands.h"
#include "log.h"
#include "touched.h"
#include "tracee.h"

// One of the two commands, whose processes form a process group.
struct group {
  // 0 before the command is started.
  pid_t leader;
  bool is_set_up;
  bool has_ended;
  // The exit status as in shells; -1 before the command has ended.
  int status;
};

// A call in progress, and the action after it: a kill, another result, or restoring the original arguments.
struct pending {
  // 0 if this element of the array is free.
  pid_t thread;
  // The original arguments, which must be restored before the program continues.
  struct registers original;
  bool restores;
  bool kills;
  // The errno value that replaces the result; 0 for none.
  int error;
};

enum { MOST_PENDING = 64 };

struct tracer {
  const struct options *options;
  struct group command, other;
  long count;
  bool has_fired;
  bool has_timed_out;
  bool other_was_blocked;
  // The thread that waits at its call while the other command runs; 0 for none.
  pid_t held;
  struct pending pending[MOST_PENDING];
};

static volatile sig_atomic_t alarm_rang = 0;
static void ring(int signal) {
  (void)signal;
  alarm_rang = 1;
}

static void resume(pid_t thread, enum __ptrace_request request, int signal) {
  // Fails only if the thread was killed, which waitpid(2) reports too.
  ptrace(request, thread, NULL, (void *)(intptr_t)signal);
}

static void kill_group(const struct group *group) {
  if (group->leader && !group->has_ended) kill(-group->leader, SIGKILL);
}

static bool is_in_group(pid_t thread, const struct group *group) {
  return group->leader && getpgid(thread) == group->leader;
}

// MARK: - Kinds of calls

static bool opens_for_change(uint64_t flags) {
  return (flags & (O_CREAT | O_TRUNC)) != 0 || (flags & O_TMPFILE) == O_TMPFILE;
}

static enum effect effect_of(pid_t thread, const struct call *call, const struct registers *registers) {
  uint64_t flags = 0;
  if (call->number == SYS_openat) flags = call_argument(registers, 2);
#if defined(SYS_open)
  if (call->number == SYS_open) flags = call_argument(registers, 1);
#endif
  if (call->number == SYS_openat2) {
    struct open_how how;
    if (read_memory(thread, call_argument(registers, 2), &how, sizeof how)) flags = how.flags;
  }
  return opens_for_change(flags) ? EFFECT_CHANGE : call->effect;
}

// Returns whether a call in the table is counted.
static bool counts(const struct call *call, const struct registers *registers) {
  if (call->effect == EFFECT_WAIT) return false;
  if (call->number == SYS_mmap) return (call_argument(registers, 3) & MAP_ANONYMOUS) == 0;
  if (call->number != SYS_fcntl) return true;
  switch (call_argument(registers, 1)) {
    case F_GETLK: case F_SETLK: case F_SETLKW:
    case F_OFD_GETLK: case F_OFD_SETLK: case F_OFD_SETLKW:
    case F_SETLEASE: case F_GETLEASE: return true;
    default: return false;
  }
}

// Returns whether the call may wait, for a lock or by its purpose.
static bool waits(const struct call *call, const struct registers *registers) {
  if (call->effect == EFFECT_WAIT) return true;
  uint64_t command = call_argument(registers, 1);
  if (call->number == SYS_fcntl) return command == F_SETLKW || command == F_OFD_SETLKW;
  if (call->number == SYS_flock) return (command & (LOCK_NB | LOCK_UN)) == 0;
  return false;
}

enum { MOST_VECTORS = 64 };

// Returns the number of vectors; 0 if there are none, or more than a tested program would pass.
static size_t read_vectors(pid_t thread, const struct registers *registers, struct iovec *vectors) {
  size_t count = call_argument(registers, 2);
  if (count == 0 || count > MOST_VECTORS) return 0;
  return read_memory(thread, call_argument(registers, 1), vectors, count * sizeof *vectors) ? count : 0;
}

static int64_t bytes_of(pid_t thread, const struct call *call, const struct registers *registers) {
  switch (call->amount) {
    case AMOUNT_NONE: return -1;
    case AMOUNT_BYTES: return (int64_t)call_argument(registers, 2);
    case AMOUNT_VECTORS: break;
  }
  struct iovec vectors[MOST_VECTORS];
  size_t count = read_vectors(thread, registers, vectors);
  int64_t sum = 0;
  for (size_t i = 0; i < count; i++) sum += (int64_t)vectors[i].iov_len;
  return sum;
}

// Limits a transfer to `byte_count` bytes.
static bool cut_transfer(pid_t thread, const struct call *call, struct registers *registers, size_t byte_count) {
  switch (call->amount) {
    case AMOUNT_NONE: return false;
    case AMOUNT_BYTES:
      if (call_argument(registers, 2) > byte_count) set_call_argument(registers, 2, byte_count);
      return write_registers(thread, registers);
    case AMOUNT_VECTORS: break;
  }
  struct iovec vectors[MOST_VECTORS];
  size_t count = read_vectors(thread, registers, vectors);
  if (count == 0) return false;
  size_t left = byte_count;
  for (size_t i = 0; i < count; i++) {
    if (vectors[i].iov_len > left) vectors[i].iov_len = left;
    left -= vectors[i].iov_len;
  }
  // The changed vectors are written below the stack, beyond the red zone of 128 bytes that a function may use. The
  // program's own vectors stay unchanged.
  uint64_t copy = (stack_pointer(registers) - 128 - sizeof vectors) & ~(uint64_t)15;
  if (!write_memory(thread, copy, vectors, count * sizeof *vectors)) return false;
  set_call_argument(registers, 1, copy);
  return write_registers(thread, registers);
}

// MARK: - Actions

static struct pending *add_pending(struct tracer *tracer, pid_t thread) {
  for (size_t i = 0; i < MOST_PENDING; i++) {
    if (tracer->pending[i].thread) continue;
    tracer->pending[i] = (struct pending){.thread = thread};
    return &tracer->pending[i];
  }
  fprintf(stderr, "crashat: more than %d calls under way\n", MOST_PENDING);
  exit(EXIT_OWN_FAILURE);
}

static void fail_call(struct tracer *tracer, pid_t thread, const struct call *call, struct registers *registers) {
  if (call->number == SYS_close) {
    // A close that fails has closed the descriptor nevertheless: close(2).
    add_pending(tracer, thread)->error = tracer->options->error;
    resume(thread, PTRACE_SYSCALL, 0);
  } else {
    refuse_call(thread, registers, tracer->options->error);
    resume(thread, PTRACE_CONT, 0);
  }
}

static void cut_call(struct tracer *tracer, pid_t thread, const struct call *call, struct registers *registers) {
  struct registers original = *registers;
  bool is_cut = cut_transfer(thread, call, registers, (size_t)tracer->options->byte_count);
  if (!is_cut && tracer->options->action == ACTION_SHORT) {
    resume(thread, PTRACE_CONT, 0);
    return;
  }
  struct pending *pending = add_pending(tracer, thread);
  pending->original = original;
  pending->restores = is_cut;
  pending->kills = tracer->options->action == ACTION_TORN;
  resume(thread, PTRACE_SYSCALL, 0);
}

static void hold(struct tracer *tracer, pid_t thread) {
  char *arguments[] = {"sh", "-c", (char *)(uintptr_t)tracer->options->other, NULL};
  tracer->other.leader = start_command(arguments);
  if (tracer->other.leader < 0) {
    perror("crashat: fork");
    exit(EXIT_OWN_FAILURE);
  }
  tracer->held = thread;
}

static void release(struct tracer *tracer) {
  if (!tracer->held) return;
  if (tracer->options->kills_after_hold) kill_group(&tracer->command);
  resume(tracer->held, PTRACE_CONT, 0);
  tracer->held = 0;
}

static void strike(struct tracer *tracer, pid_t thread, const struct call *call, struct registers *registers) {
  switch (tracer->options->action) {
    case ACTION_LIST: resume(thread, PTRACE_CONT, 0); break;
    case ACTION_KILL:
      kill_group(&tracer->command);
      resume(thread, PTRACE_CONT, 0);
      break;
    case ACTION_FAIL:
    case ACTION_FAIL_ON: fail_call(tracer, thread, call, registers); break;
    case ACTION_SHORT:
    case ACTION_TORN: cut_call(tracer, thread, call, registers); break;
    case ACTION_HOLD: hold(tracer, thread); break;
  }
}

// MARK: - Stops

// Handles the stop of a thread that is about to make a call in the table.
static void at_call(struct tracer *tracer, pid_t thread) {
  struct registers registers;
  if (!read_registers(thread, &registers)) return;
  const struct call *call = find_call(call_number(&registers));
  if (!call) {
    resume(thread, PTRACE_CONT, 0);
    return;
  }
  if (is_in_group(thread, &tracer->other)) {
    if (tracer->held && !tracer->options->holds_until_end && waits(call, &registers)) {
      tracer->other_was_blocked = true;
      release(tracer);
    }
    resume(thread, PTRACE_CONT, 0);
    return;
  }
  struct touched touched;
  if (!counts(call, &registers) || !find_touched(thread, call, &registers, tracer->options->root, &touched)) {
    resume(thread, PTRACE_CONT, 0);
    return;
  }
  tracer->count++;
  bool is_hit = tracer->count == tracer->options->at;
  struct logged_call logged = {
    .number = tracer->count,
    .thread = thread,
    .call = call,
    .effect = effect_of(thread, call, &registers),
    .touched = &touched,
    .byte_count = bytes_of(thread, call, &registers),
    .offset = call->offset_argument ? (int64_t)call_argument(&registers, call->offset_argument) : -1,
    .is_hit = is_hit,
  };
  log_call(tracer->options->log, &logged);
  if (is_hit) tracer->has_fired = true;
  if (is_hit || (tracer->options->action == ACTION_FAIL_ON && tracer->has_fired)) {
    strike(tracer, thread, call, &registers);
  } else {
    resume(thread, PTRACE_CONT, 0);
  }
}

// Handles the stop of a thread that has made a call: performs the action that is pending for the call.
static void after_call(struct tracer *tracer, pid_t thread) {
  for (size_t i = 0; i < MOST_PENDING; i++) {
    struct pending *pending = &tracer->pending[i];
    if (pending->thread != thread) continue;
    pending->thread = 0;
    struct registers registers;
    if (pending->kills) {
      kill_group(&tracer->command);
    } else if (read_registers(thread, &registers)) {
      if (pending->restores) {
        // Argument 0 is not restored, because some machines return the result in its register, and it never changes.
        for (int index = 1; index <= 2; index++) {
          set_call_argument(&registers, index, call_argument(&pending->original, index));
        }
        write_registers(thread, &registers);
      }
      if (pending->error) replace_result(thread, &registers, pending->error);
    }
  }
  resume(thread, PTRACE_CONT, 0);
}

static void set_up(struct group *group) {
  long options = PTRACE_O_TRACESECCOMP | PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK |
                 PTRACE_O_TRACEEXEC | PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL;
  ptrace(PTRACE_SETOPTIONS, group->leader, NULL, (void *)(intptr_t)options);
  group->is_set_up = true;
  resume(group->leader, PTRACE_CONT, 0);
}

static void at_stop(struct tracer *tracer, pid_t thread, int status) {
  int signal = WSTOPSIG(status);
  int event = status >> 16;
  if (thread == tracer->command.leader && !tracer->command.is_set_up) {
    set_up(&tracer->command);
  } else if (thread == tracer->other.leader && !tracer->other.is_set_up) {
    set_up(&tracer->other);
  } else if (event == PTRACE_EVENT_SECCOMP) {
    at_call(tracer, thread);
  } else if (signal == (SIGTRAP | 0x80)) {
    after_call(tracer, thread);
  } else if (event || signal == SIGSTOP) {
    // A new thread or program. Every new thread begins with a SIGSTOP. Commands that stop themselves are not supported.
    resume(thread, PTRACE_CONT, 0);
  } else {
    resume(thread, PTRACE_CONT, signal);
  }
}

static int shell_status(int status) { return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status); }

static void at_end(struct tracer *tracer, pid_t thread, int status) {
  struct group *groups[] = {&tracer->command, &tracer->other};
  for (size_t i = 0; i < 2; i++) {
    if (thread != groups[i]->leader) continue;
    groups[i]->has_ended = true;
    groups[i]->status = shell_status(status);
  }
  if (thread == tracer->other.leader) release(tracer);
  if (thread == tracer->held) tracer->held = 0;
}

int trace(const struct options *options) {
  static struct tracer tracer;
  tracer.options = options;
  tracer.command.status = tracer.other.status = -1;

  // Without SA_RESTART, so that waitpid(2) returns.
  struct sigaction action = {.sa_handler = ring};
  sigaction(SIGALRM, &action, NULL);
  alarm(options->timeout_seconds);

  tracer.command.leader = start_command(options->command);
  if (tracer.command.leader < 0) {
    perror("crashat: fork");
    return EXIT_OWN_FAILURE;
  }
  for (;;) {
    int status;
    pid_t thread = waitpid(-1, &status, __WALL);
    if (thread < 0 && errno == ECHILD) break;
    if (alarm_rang && !tracer.has_timed_out) {
      tracer.has_timed_out = true;
      kill_group(&tracer.command);
      kill_group(&tracer.other);
    }
    if (thread < 0) continue;
    if (WIFSTOPPED(status)) {
      at_stop(&tracer, thread, status);
    } else {
      at_end(&tracer, thread, status);
    }
  }
  struct logged_end end = {
    .call_count = tracer.count,
    .has_fired = tracer.has_fired,
    .has_timed_out = tracer.has_timed_out,
    .command_status = tracer.command.status,
    .other_status = tracer.other.status,
    .other_was_blocked = tracer.other_was_blocked,
  };
  log_end(options->log, &end);
  return tracer.command.status < 0 ? EXIT_OWN_FAILURE : tracer.command.status;
}

#endif
