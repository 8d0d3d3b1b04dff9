// The path of a record: below the root, in a subdirectory named by the first two characters of its key.

#ifndef RECORD_PATH_H
#define RECORD_PATH_H

#include "include/raw_files.h"

#include <string.h>

typedef struct record_path {
  char text[2 + 1 + sizeof(raw_key)];
} record_path;

static inline record_path path_of(const raw_key *key) {
  record_path result;
  memcpy(result.text, key->text, 2);
  result.text[2] = '/';
  memcpy(result.text + 3, key->text, sizeof *key);
  return result;
}

#endif
