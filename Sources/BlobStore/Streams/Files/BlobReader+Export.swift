public import BlobRecord
internal import Posix
public import SystemPackage

// Payloads as files of their own, without a header.
extension BlobStore {
  /// Writes a key's payload to a file, which is made, or replaced as a whole.
  ///
  /// See `BlobReader.export`.
  ///
  /// - Parameters:
  ///   - key: the key of the record.
  ///   - path: where the file is to lie.
  ///   - touching: whether to move the update time.
  /// - Returns: the payload's size in bytes; nil if there is no record, or it is expired and not locked, and nothing is
  ///   written.
  /// - Throws: as `openReader` and `BlobReader.export`.
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
  /// Writes the payload, or a range of it, to a file, which is made, or replaced as a whole.
  ///
  /// A process that opens the file finds the old content or the new one. It keeps the permissions of the file that it
  /// replaces. Until it is whole it is called `.blobcache-` with digits, in the same directory; an error leaves nothing of
  /// it. It is not synced to the medium.
  ///
  /// The whole payload is verified on the way. Bytes are read and written, because that is faster than a copy by the
  /// kernel and a checksum; and behind a record's header no block can be shared (Spec/Benchmarks.md).
  ///
  /// - Parameters:
  ///   - range: offsets in the payload; nil for all of it. The checksum of a part is not compared.
  ///   - path: where the file is to lie. What is no regular file stays there, such as a link or a device.
  /// - Throws: `invalidRange`; `damaged`, after `damagePolicy` was followed; `fileSystem`, with EEXIST if something else
  ///   than a regular file has the name. The old file stays as it was.
  /// - Complexity: O(*n*) for *n* bytes; two system calls for each 256 KiB, and the memory of one such piece.
  public func export(_ range: Range<Int64>? = nil, to path: FilePath) throws(BlobStoreError) {
    try export(range, to: path) { _ in }
  }

  /// Exports as `export(_:to:)` does.
  ///
  /// - Parameters:
  ///   - range: offsets in the payload; nil for all of it.
  ///   - path: where the file is to lie.
  ///   - progress: is told the bytes of each piece that is written.
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
        // A full volume shows before, and writes take a quarter less time.
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

  /// The largest file that one call more would not be worth, in bytes.
  private static var unreservedByteCount: Int { 1 << 20 }
}
