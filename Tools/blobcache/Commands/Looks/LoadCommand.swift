internal import ArgumentParser
internal import BlobRecord
internal import BlobStore
internal import SystemPackage
internal import TextFormats

struct LoadCommand: DirectorySubcommand {
  static let configuration = CommandConfiguration(
    commandName: "load", abstract: "Write a blob's payload to standard output or to a file.")

  static let examples = [
    Example("Get a blob back into a file", "blobcache load cache album/42 --output copy.png"),
    Example("Look at a blob without counting as a use", "blobcache load cache album/42 --no-touch | wc -c"),
  ]

  @Argument(help: ArgumentHelp("The cache's directory.", valueName: "dir"))
  var directory: FilePath

  @Argument(help: "The key.")
  var key: String

  @Option(
    parsing: .unconditional,
    help: ArgumentHelp(
      """
      Write to this file instead, which is replaced as a whole or not at all, but a device or a pipe written to; - for \
      standard output.
      """, valueName: "file"))
  var output: FilePath?

  @Option(
    parsing: .unconditional,
    help: ArgumentHelp(
      "Write these bytes alone: 0-1023, 1024- for the rest from there, -500 for the last. Their checksum is not checked.",
      valueName: "bytes"),
    transform: ByteRange.read)
  var range: ByteRange?

  @Flag(help: "Read a blob that is being stored as it comes, to its end. Thirty seconds without a byte are an error.")
  var follow = false

  @Flag(help: "Leave the time of the last access as it is.")
  var noTouch = false

  @OptionGroup var options: DirectoryOptions

  func answer(_ standardOutput: inout Output) throws -> Answer {
    let file = output.map { OutputFile(path: $0) }.flatMap { $0.isStandardOutput ? nil : $0 }
    let store = try file == nil ? options.store(at: directory) : options.storeToWrite(at: directory)
    do {
      if follow { return try followBlob(in: store, to: file, &standardOutput) }
      guard let reader = try store.openReader(for: BlobKey(key), touching: !noTouch) else {
        return notFound(in: store)
      }
      guard let bytes = bytes(of: reader) else {
        StandardError.report("\(key): no such bytes: the payload has \(ByteCount(reader.byteCount).exact)")
        return .no
      }
      guard let file else {
        try write(bytes, of: reader) { standardOutput.write($0) }
        return .done
      }
      if try file.isReplaced() {
        let bar = bar(for: bytes)
        try reader.export(bytes, to: file.path) { bar?.add($0) }
      } else {
        try file.write { append in try write(bytes, of: reader, append) }
      }
      report(byteCount: Int64(bytes.count), standardOutput: &standardOutput)
      return .done
    } catch let error as BlobStoreError {
      guard let damage = error.recordError else { throw error }
      StandardError.report("\(key): damaged: \(damage.name); \(Remedy.ofDamage)")
      return .no
    } catch {
      throw CommandFailure("load \"\(key)\": \(error)")
    }
  }

  func validate() throws {
    if follow, range != nil { throw ValidationError("--follow reads all of a blob, --range a part.") }
  }

  private func notFound(in store: BlobStore) -> Answer {
    StandardError.report("\(key): not found")
    store.reportForeignRecord(for: BlobKey(key))
    _ = WrongDirectory.answer(directory, options)
    return .no
  }

  private func report(byteCount: Int64, standardOutput: inout Output) {
    guard options.json else { return }
    var result = JSONObject(operation: "load", key: key, result: "done")
    result.add("payloadSize", byteCount)
    standardOutput.line(result)
  }

  private func followBlob(
    in store: BlobStore, to file: OutputFile?, _ standardOutput: inout Output
  ) throws -> Answer {
    guard let follower = try store.openFollower(for: BlobKey(key), touching: !noTouch) else {
      return notFound(in: store)
    }
    func write(_ append: (RawSpan) throws -> Void) throws {
      let bar = TransferBar(key, total: nil, quiet: options.quiet)
      try follower.forEachPiece { piece in
        try append(piece)
        bar?.add(piece.byteCount)
      }
    }
    guard let file else {
      try write { standardOutput.write($0) }
      return .done
    }
    try file.write { append in try write(append) }
    report(byteCount: follower.byteCount, standardOutput: &standardOutput)
    return .done
  }

  /// - Returns: The byte range, or `nil` if the payload contains no byte of the requested range.
  private func bytes(of reader: BlobReader) -> Range<Int64>? {
    guard let range else { return 0..<reader.byteCount }
    return range.ranges.resolved(byteCount: reader.byteCount).first
  }

  /// Writes bytes of the payload in pieces. A complete payload is verified before its first byte is written.
  ///
  /// A payload of one piece is verified by that read. A larger payload is first read to verify it, mostly from the
  /// page cache, because bytes that were written to a pipe cannot be withdrawn after a checksum mismatch.
  private func write(_ bytes: Range<Int64>, of reader: BlobReader, _ append: (RawSpan) throws -> Void) throws {
    let isOnePiece = reader.byteCount <= Self.largestPiece
    if range == nil, !isOnePiece { try reader.verify() }
    let bar = bar(for: bytes)
    try reader.forEachPiece(of: bytes, pieceSize: isOnePiece ? Self.largestPiece : 256 << 10) { piece in
      try append(piece)
      bar?.add(piece.byteCount)
    }
  }

  /// The size of the largest payload that is read into memory as a whole.
  private static let largestPiece = 4 << 20

  private func bar(for bytes: Range<Int64>) -> TransferBar? {
    TransferBar(key, total: Int64(bytes.count), quiet: options.quiet)
  }
}
