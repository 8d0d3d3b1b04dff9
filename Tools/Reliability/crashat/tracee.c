#if defined(__linux__) && (defined(__x86_64__) || defined(__aarch64__))

#define _GNU_SOURCE
#include "tracee.h"

#include <elf.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>

bool read_registers(pid_t thread, struct registers *registers) {
  struct iovec area = {&registers->raw, sizeof registers->raw};
  return ptrace(PTRACE_GETREGSET, thread, NT_PRSTATUS, &area) == 0;
}

bool write_registers(pid_t thread, const struct registers *registers) {
  struct user_regs_struct copy = registers->raw;
  struct iovec area = {&copy, sizeof copy};
  return ptrace(PTRACE_SETREGSET, thread, NT_PRSTATUS, &area) == 0;
}

#if defined(__x86_64__)

static unsigned long long *argument(struct user_regs_struct *raw, int index) {
  switch (index) {
    case 0: return &raw->rdi;
    case 1: return &raw->rsi;
    case 2: return &raw->rdx;
    case 3: return &raw->r10;
    case 4: return &raw->r8;
    default: return &raw->r9;
  }
}

long call_number(const struct registers *registers) { return (long)registers->raw.orig_rax; }

uint64_t stack_pointer(const struct registers *registers) { return registers->raw.rsp; }

bool refuse_call(pid_t thread, struct registers *registers, int error) {
  registers->raw.orig_rax = (unsigned long long)-1;
  registers->raw.rax = (unsigned long long)-(long long)error;
  return write_registers(thread, registers);
}

bool replace_result(pid_t thread, struct registers *registers, int error) {
  registers->raw.rax = (unsigned long long)-(long long)error;
  return write_registers(thread, registers);
}

#else

static unsigned long long *argument(struct user_regs_struct *raw, int index) { return &raw->regs[index]; }

long call_number(const struct registers *registers) { return (long)registers->raw.regs[8]; }

uint64_t stack_pointer(const struct registers *registers) { return registers->raw.sp; }

bool refuse_call(pid_t thread, struct registers *registers, int error) {
  // The kernel stores the number of the current call separately from the register that passed it.
  int none = -1;
  struct iovec area = {&none, sizeof none};
  if (ptrace(PTRACE_SETREGSET, thread, NT_ARM_SYSTEM_CALL, &area) != 0) return false;
  return replace_result(thread, registers, error);
}

bool replace_result(pid_t thread, struct registers *registers, int error) {
  registers->raw.regs[0] = (unsigned long long)-(long long)error;
  return write_registers(thread, registers);
}

#endif

uint64_t call_argument(const struct registers *registers, int index) {
  struct user_regs_struct raw = registers->raw;
  return *argument(&raw, index);
}

void set_call_argument(struct registers *registers, int index, uint64_t value) {
  *argument(&registers->raw, index) = value;
}

bool read_memory(pid_t thread, uint64_t address, void *bytes, size_t count) {
  struct iovec local = {bytes, count};
  struct iovec remote = {(void *)(uintptr_t)address, count};
  return process_vm_readv(thread, &local, 1, &remote, 1, 0) == (ssize_t)count;
}

bool write_memory(pid_t thread, uint64_t address, const void *bytes, size_t count) {
  struct iovec local = {(void *)(uintptr_t)bytes, count};
  struct iovec remote = {(void *)(uintptr_t)address, count};
  return process_vm_writev(thread, &local, 1, &remote, 1, 0) == (ssize_t)count;
}

void read_string(pid_t thread, uint64_t address, char *text, size_t capacity) {
  // Reads pieces that end at page boundaries, because the page after the end of the string may not be mapped.
  enum { PAGE = 4096 };
  size_t done = 0;
  while (done + 1 < capacity) {
    size_t piece = PAGE - (address + done) % PAGE;
    if (piece > capacity - 1 - done) piece = capacity - 1 - done;
    if (!read_memory(thread, address + done, text + done, piece)) break;
    if (memchr(text + done, 0, piece)) return;
    done += piece;
  }
  text[done] = 0;
}

#endif
