// The system calls that are counted, and what their arguments are.

#ifndef CRASHAT_CALLS_H
#define CRASHAT_CALLS_H

#include <stddef.h>

// The greatest effect that a call can have on a directory. The log has it for programs that choose a call to interrupt.
enum effect {
  // Opens for reading, closes, or reads status and names.
  EFFECT_LOOK,
  // Transfers bytes.
  EFFECT_READ,
  EFFECT_WRITE,
  // Changes names, sizes, owners or permissions.
  EFFECT_CHANGE,
  EFFECT_SYNC,
  EFFECT_LOCK,
  // Waits, and is never counted. Such a call only shows that the other command has to wait.
  EFFECT_WAIT,
};

// The arguments of a call that name the files that it touches.
enum place {
  PLACE_NONE,
  // Argument 0 is a descriptor.
  PLACE_DESCRIPTOR,
  // Arguments 0 and 2 are descriptors.
  PLACE_TWO_DESCRIPTORS,
  // Argument 4 is a descriptor.
  PLACE_MAPPED,
  // Argument 0 is a path.
  PLACE_PATH,
  // Arguments 0 and 1 are paths.
  PLACE_TWO_PATHS,
  // Arguments 0 and 1 are a directory's descriptor and a path relative to it.
  PLACE_AT,
  // Arguments 0 and 1 are a directory's descriptor and a path relative to it, and so are arguments 2 and 3.
  PLACE_TWO_AT,
  // Arguments 1 and 2 are a directory's descriptor and a path relative to it.
  PLACE_LINK_AT,
};

// The arguments that determine the number of bytes that a call transfers.
enum amount {
  AMOUNT_NONE,
  // Argument 2 counts bytes.
  AMOUNT_BYTES,
  // Arguments 1 and 2 are an array of struct iovec and its length.
  AMOUNT_VECTORS,
};

struct call {
  long number;
  const char *name;
  enum place place;
  enum effect effect;
  enum amount amount;
  // The index of the argument that is the position in the file; 0 for none.
  int offset_argument;
};

extern const struct call calls[];
extern const size_t call_count;

// Returns NULL for a call that is not in the table.
const struct call *find_call(long number);

const char *effect_name(enum effect effect);

#endif
