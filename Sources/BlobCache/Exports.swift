// What `load` answers and what a configuration holds are the store's types: who imports the cache has them too.
@_exported public import BlobRecord
@_exported public import BlobStore
// And what its directory is.
@_exported public import struct SystemPackage.FilePath
