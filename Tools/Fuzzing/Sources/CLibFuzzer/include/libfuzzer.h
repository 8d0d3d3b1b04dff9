// The entry of libFuzzer's library without a main function (LLVM's docs/LibFuzzer, "Using libFuzzer as a library").

#ifndef LIBFUZZER_H
#define LIBFUZZER_H

#include <stddef.h>
#include <stdint.h>

/// Runs the fuzzer by the command line's options, calling `test` with one input after the other.
int LLVMFuzzerRunDriver(int *argc, char ***argv, int (*test)(const uint8_t *data, size_t size));

#endif
