// A target needs a source file; this one has the compiler check what the header asserts.
#include "blob_record.h"
