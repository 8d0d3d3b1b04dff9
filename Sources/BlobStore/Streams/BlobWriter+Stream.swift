internal import BlobRecord
internal import Posix

/// A record that is seen while it is written.
struct VisibleStream {
  /// The one that it has in its file.
  var header: RecordHeader
  let identity: FileIdentity
}

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
    do {
      let identity = FileIdentity(try placed.draft.file.status())
      visible = VisibleStream(header: stream, identity: identity)
      store.core.streams.beginWriting(identity)
      try write(stream)
      let published = try store.publisher.publish(&placed, stream, locks: locks).header
      // With the locks that are kept.
      visible = VisibleStream(header: published, identity: identity)
      header.refCount = published.refCount
    } catch {
      throw BlobStoreError(error, operation: "store", key: key)
    }
  }

  private func write(_ header: RecordHeader) throws(FileError) {
    try header.withEncodedBytes { head throws(FileError) in try placed.draft.file.write(head, at: 0) }
  }

  /// Tells followers where the payload ends, before anything is written behind it.
  mutating func sealStream() throws {
    guard var sealed = visible, expectedSize == nil else { return }
    sealed.header.payloadSize = UInt64(byteCount)
    try store.publisher.rewrite(placed, to: sealed.header)
    visible = sealed
  }

  /// Writes the last header, with which the blob is whole.
  mutating func complete(_ stream: VisibleStream) throws -> RecordHeader {
    do {
      try store.publisher.complete(placed, from: stream.header, to: header)
    } catch let error as BlobStoreError where error.code == .overtaken {
      // No load finds the file any more. Those that follow it read it to its end.
      try write(header)
      end(stream)
      throw error
    } catch let error as Published {
      end(stream)
      throw error.cause
    }
    end(stream)
    return header
  }

  /// Sets what the record gets with the commit.
  ///
  /// - Parameters:
  ///   - ttl: as for `openWriter`.
  ///   - locks: as for `openWriter`.
  ///   - byteCount: how many bytes there must be; nil for any number.
  ///   - extendedData: as for `openWriter`; nil for those given there.
  package mutating func settle(
    ttl: Duration?, locks: BlobStore.LockPolicy, byteCount: Int64?, extendedData: Data?
  ) throws(BlobStoreError) {
    try withErrorContext("store", key) {
      try ExpectedSize(byteCount).checkEnd(at: self.byteCount)
      let settled = try store.publisher.newHeader(ttl: ttl, locks: locks)
      header.ttl = settled.ttl
      header.refCount = locks.refCount(replacing: header.refCount)
      try takeExtendedData(extendedData)
    }
  }

  /// Gives the blob what it does not bring itself: what lies beside it, and the time at which another machine stored it.
  ///
  /// - Throws: `sizeMismatch` if the payload is not of this size; as `BlobStore.openWriter`.
  package mutating func settle(
    asStoredAt time: UnixTime, byteCount: Int64, extendedData: Data?
  ) throws(BlobStoreError) {
    try withErrorContext("store", key) {
      try ExpectedSize(byteCount).checkEnd(at: self.byteCount)
      storedAt = time
      try takeExtendedData(extendedData)
    }
  }

  private mutating func takeExtendedData(_ data: Data?) throws {
    guard let data else { return }
    tail = try store.core.newExtension(of: key, at: placed.path, data)?.encoded
    header.extensionEnd = tail.map { UInt32($0.count) }
  }

  /// Completes the blob for those that follow it, and takes it away from the key.
  package consuming func commitUnstored() throws(BlobStoreError) {
    do {
      try complete()
      guard let stream = visible else { return }
      store.publisher.withdraw(placed)
      // A record that could not be removed must not become whole.
      guard try !placed.draft.isInPlace(as: placed.path.fileName) else {
        throw BlobStoreError(
          .internalInconsistency, "the record could not be removed", path: placed.draft.file.location.path)
      }
      try write(header)
      end(stream)
    } catch {
      throw BlobStoreError(error, operation: "store", key: key)
    }
  }

  private mutating func end(_ stream: VisibleStream) {
    visible = nil
    let kept = tail.flatMap { tail in try? RecordExtension(decoding: unsafe tail.span.bytes) }
    store.core.streams.endWriting(
      stream.identity, FollowedProgress(byteCount: byteCount, header: header, extension: kept))
  }

  /// Takes the blob away. Its followers get an error.
  borrowing func withdraw(_ stream: VisibleStream) {
    store.publisher.withdraw(placed)
    store.core.streams.endWriting(stream.identity, nil)
  }
}
