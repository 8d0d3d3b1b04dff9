internal import BlobRecord
internal import Posix

/// A blob that is seen while it grows. Its writer has the record's file locked for as long as it lives.
extension BlobWriter {
  /// Puts the empty blob in its place.
  mutating func becomeVisible() throws(BlobStoreError) {
    var stream = header
    stream.flags.insert(.streamIncomplete)
    // The time to live begins with the commit. Until then, only the lock tells whether the record is of use.
    stream.ttl = .max
    // It ends the payload for followers, before what comes behind it.
    stream.payloadSize = expectedSize.map { UInt64($0) } ?? .max
    stream.extensionEnd = nil
    streamHeader = stream
    do {
      try write(stream)
      let published = try store.publisher.publish(&placed, stream, locks: locks).header
      // With the locks that are kept.
      streamHeader = published
      header.refCount = published.refCount
    } catch {
      throw BlobStoreError(error, operation: "store", key: key)
    }
  }

  private func write(_ header: RecordHeader) throws(FileError) {
    try header.withEncodedBytes { head throws(FileError) in try placed.draft.file.write(head, at: 0) }
  }

  /// Tells followers where the payload ends, before anything is written behind it.
  mutating func sealStream() throws(FileError) {
    guard var stream = streamHeader, expectedSize == nil else { return }
    stream.payloadSize = UInt64(byteCount)
    streamHeader = stream
    try write(stream)
  }

  /// Writes the last header, with which the blob is whole.
  mutating func complete(from stream: RecordHeader) throws -> RecordHeader {
    do {
      try store.publisher.complete(placed, from: stream, to: header)
    } catch let error as BlobStoreError where error.code == .overtaken {
      // No load finds the file any more. Those that follow it read it to its end.
      streamHeader = nil
      try write(header)
      throw error
    } catch let error as Published {
      streamHeader = nil
      throw error.cause
    }
    streamHeader = nil
    return header
  }
}
