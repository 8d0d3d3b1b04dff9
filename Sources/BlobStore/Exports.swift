// Keys, headers and layouts are the record's types, and a directory is a `FilePath`: who imports the store can name them.
@_exported public import BlobRecord
@_exported public import struct SystemPackage.FilePath
