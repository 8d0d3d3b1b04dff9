#if defined(__linux__) && (defined(__x86_64__) || defined(__aarch64__))

#define _GNU_SOURCE
#include "commands.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <unistd.h>

#include "calls.h"
#include "options.h"

// Stops the process for the tracer at the calls in the table only, so that a run takes only milliseconds.
static int install_filter(void) {
  enum { MOST_CALLS = 128 };
  struct sock_filter filter[MOST_CALLS + 3];
  if (call_count > MOST_CALLS) return -1;
  size_t length = 0;
  filter[length++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
  for (size_t i = 0; i < call_count; i++) {
    // A match jumps over the rest of the table and over the statement that allows the call.
    unsigned char distance = (unsigned char)(call_count - i);
    filter[length++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)calls[i].number, distance, 0);
  }
  filter[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  filter[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE);
  struct sock_fprog program = {(unsigned short)length, filter};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return -1;
  return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

pid_t start_command(char *const arguments[]) {
  pid_t pid = fork();
  if (pid != 0) return pid;
  setpgid(0, 0);
  if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0) {
    perror("crashat: ptrace");
    _exit(EXIT_OWN_FAILURE);
  }
  // The tracer sets its options during this stop. Without them, the filter would make every call in the table fail.
  raise(SIGSTOP);
  if (install_filter() != 0) {
    perror("crashat: seccomp");
    _exit(EXIT_OWN_FAILURE);
  }
  execvp(arguments[0], arguments);
  perror(arguments[0]);
  _exit(EXIT_OWN_FAILURE);
}

#endif
