// What `load` answers and what a configuration holds: `import BlobCache` is enough to name them.
@_exported public import BlobStore
@_exported public import MemoryCache
