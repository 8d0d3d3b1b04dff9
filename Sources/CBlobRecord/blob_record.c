// A target needs a source file. Compiling this one checks the static assertions in the header.
#include "blob_record.h"
