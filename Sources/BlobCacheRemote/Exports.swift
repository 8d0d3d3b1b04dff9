@_exported public import BlobCache
