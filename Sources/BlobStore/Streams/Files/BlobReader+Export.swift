public import BlobRecord
internal import Posix
public import SystemPackage

// The export of payloads to files without a header.
extension BlobStore {
  /// Writes a key's payload to a file, which is created or atomically replaced; see `BlobReader.export`.
  ///
  /// - Parameters:
  ///   - key: The key of the record.
  ///   - path: The path of the file.
  ///   - touching: A Boolean value that indicates whether to advance the update time.
  /// - Returns: The payload's size in bytes, or `nil`, with nothing written, if no record exists or it is expired and
  ///   not locked.
  /// - Throws: The errors of `openReader` and `BlobReader.export`.
  @discardableResult
  public func export(
    _ key: BlobKey, to path: FilePath, touching: Bool = true
  ) throws(BlobStoreError) -> Int64? {
    guard let reader = try openReader(for: key, touching: touching) else { return nil }
    try reader.export(to: path)
    return reader.byteCount
  }
}

extension BlobReader {
  /// Writes the payload, or a range of it, to a file, which is created or atomically replaced.
  ///
  /// A process that opens the file sees either the old or the new content. The permissions of a replaced file are
  /// kept. Until the file is complete, it is named `.blobcache-` with digits, in the same directory; after an error it
  /// is removed. The file is not synced.
  ///
  /// The whole payload is verified on the way. The bytes are read and written, because this is faster than a copy by
  /// the kernel plus a checksum; blocks cannot be shared because of the record's header (Spec/Benchmarks.md).
  ///
  /// - Parameters:
  ///   - range: The range of offsets in the payload, or `nil` for the whole payload. The checksum of a part is not
  ///     verified.
  ///   - path: The path of the file. Anything but a regular file is not replaced, such as a link or a device.
  /// - Throws: `invalidRange`; `damaged`, after `damagePolicy` was applied; `fileSystem`, with EEXIST if something
  ///   other than a regular file has the name. The old file is not changed.
  /// - Complexity: O(*n*) for *n* bytes; two system calls per 256 KiB, and the memory of one such piece.
  public func export(_ range: Range<Int64>? = nil, to path: FilePath) throws(BlobStoreError) {
    try export(range, to: path) { _ in }
  }

  /// Exports like `export(_:to:)`, and calls `progress` with the size of each written piece.
  package func export(
    _ range: Range<Int64>?, to path: FilePath, progress: (Int) -> Void
  ) throws(BlobStoreError) {
    try withErrorContext("load", key) {
      let range = range ?? 0..<byteCount
      try check(range)
      let files = core.root.files
      let path = try files.absolute(path)
      let parent = path.removingLastComponent()
      guard let name = path.lastComponent?.string, let directory = try Directory(at: parent, files: files) else {
        throw FileError(.openDirectory, Location(parent), .noSuchFileOrDirectory)
      }
      let place = OpenSubdirectory(directory)
      let temporaryName = Directory.temporaryName()
      core.temporaryNames.note(temporaryName, in: place)
      defer { core.temporaryNames.forget(temporaryName) }
      try place.directory.replaceFile(name, by: temporaryName) { file in
        // Reserving blocks reports a full volume early, and makes writing a quarter faster.
        if range.count > Self.unreservedByteCount { try file.reserve(byteCount: Int64(range.count)) }
        var offset: Int64 = 0
        try forEachPiece(of: range) { piece in
          try file.write(piece, at: offset)
          offset += Int64(piece.byteCount)
          progress(piece.byteCount)
        }
      }
    }
  }

  /// The largest file, in bytes, for which reserving blocks is not worth a system call.
  private static var unreservedByteCount: Int { 1 << 20 }
}
