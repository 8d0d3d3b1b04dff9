// Results of `load` and parts of the configuration are the store's types: a program that imports the cache gets them
// too.
@_exported public import BlobRecord
@_exported public import BlobStore
// And what its directory is.
@_exported public import struct SystemPackage.FilePath
