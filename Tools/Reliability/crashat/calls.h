// The system calls that are counted, and what their arguments are.

#ifndef CRASHAT_CALLS_H
#define CRASHAT_CALLS_H

#include <stddef.h>

// The most that a call can do to a directory. The log has it, for programs that choose where to strike.
enum effect {
  // Opens for reading, closes, looks at status and names.
  EFFECT_LOOK,
  // Moves bytes.
  EFFECT_READ,
  EFFECT_WRITE,
  // Changes names, sizes, owners or permissions.
  EFFECT_CHANGE,
  EFFECT_SYNC,
  EFFECT_LOCK,
  // Waits, and is never counted: only how it is seen that the other command has to wait.
  EFFECT_WAIT,
};

// Where a call's arguments say which files it touches.
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
  // Arguments 0 and 1 are a directory's descriptor and a path from there.
  PLACE_AT,
  // And so are arguments 2 and 3.
  PLACE_TWO_AT,
  // Arguments 1 and 2 are a directory's descriptor and a path from there.
  PLACE_LINK_AT,
};

// How a call that moves bytes is told how many.
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
