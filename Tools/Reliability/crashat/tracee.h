// A stopped thread of a traced process: its system call's registers, and its memory.

#ifndef CRASHAT_TRACEE_H
#define CRASHAT_TRACEE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/user.h>

struct registers {
  struct user_regs_struct raw;
};

// All of these return false if the thread no longer exists, because another process may kill it at any time.

bool read_registers(pid_t thread, struct registers *registers);
bool write_registers(pid_t thread, const struct registers *registers);

long call_number(const struct registers *registers);
uint64_t call_argument(const struct registers *registers, int index);
void set_call_argument(struct registers *registers, int index, uint64_t value);
uint64_t stack_pointer(const struct registers *registers);

// At the start of a call: prevents the call, which then returns `-error`.
bool refuse_call(pid_t thread, struct registers *registers, int error);
// At the end of a call: the program sees `-error` as its result.
bool replace_result(pid_t thread, struct registers *registers, int error);

bool read_memory(pid_t thread, uint64_t address, void *bytes, size_t count);
bool write_memory(pid_t thread, uint64_t address, const void *bytes, size_t count);
// Reads a string up to its zero, or up to the capacity or the end of readable memory.
void read_string(pid_t thread, uint64_t address, char *text, size_t capacity);

#endif
