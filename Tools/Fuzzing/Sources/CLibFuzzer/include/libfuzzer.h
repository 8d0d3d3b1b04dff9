// The entry point of libFuzzer as a library without a main function (LLVM's LibFuzzer, "Using libFuzzer as a library").

#ifndef LIBFUZZER_H
#define LIBFUZZER_H

#include <stddef.h>
#include <stdint.h>

/// Runs the fuzzer with the options of the command line, and calls `test` with one input after the other.
int LLVMFuzzerRunDriver(int *argc, char ***argv, int (*test)(const uint8_t *data, size_t size));

#endif
