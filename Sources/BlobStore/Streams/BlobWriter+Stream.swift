internal import BlobRecord
internal import Posix

struct VisibleStream {
  var header: RecordHeader
  let identity: FileIdentity
}

/// A blob that is visible while it grows. Its writer holds a lock of the record's file for its whole lifetime.
extension BlobWriter {
  /// Publishes the empty blob.
  mutating func becomeVisible() throws(BlobStoreError) {
    var stream = header
    stream.flags.insert(.streamIncomplete)
    // The time to live starts with the commit. Until then, only the file lock shows that the record is in use.
    stream.ttl = .max
    // Followers read the payload up to this size, and therefore not the extension.
    stream.payloadSize = expectedSize.map { UInt64($0) } ?? .max
    stream.extensionEnd = nil
    do {
      let identity = FileIdentity(try placed.draft.file.status())
      visible = VisibleStream(header: stream, identity: identity)
      store.core.streams.beginWriting(identity)
      try write(stream)
      let published = try store.publisher.publish(&placed, stream, locks: locks).header
      // The published header includes inherited locks.
      visible = VisibleStream(header: published, identity: identity)
      header.refCount = published.refCount
    } catch {
      throw BlobStoreError(error, operation: "store", key: key)
    }
  }

  private func write(_ header: RecordHeader) throws(FileError) {
    try header.withEncodedBytes { head throws(FileError) in try placed.draft.file.write(head, at: 0) }
  }

  /// Publishes the end of the payload to followers before anything is written after it.
  mutating func sealStream() throws {
    guard var sealed = visible, expectedSize == nil else { return }
    sealed.header.payloadSize = UInt64(byteCount)
    try store.publisher.rewrite(placed, to: sealed.header)
    visible = sealed
  }

  /// Writes the final header, which completes the blob.
  mutating func complete(_ stream: VisibleStream) throws -> RecordHeader {
    do {
      try store.publisher.complete(placed, from: stream.header, to: header)
    } catch let error as BlobStoreError where error.code == .superseded {
      // No load returns the file any longer, but its followers read it to the end.
      try write(header)
      end(stream)
      throw error
    } catch let error as Published {
      end(stream)
      throw error
    }
    end(stream)
    return header
  }

  /// Sets the attributes that the record gets with the commit. Without new extended data, it keeps the existing data.
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

  /// Sets the extended data and the time of a blob that another machine has stored. Throws `sizeMismatch`.
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
    tail = try Records(store.core).newExtension(of: key, at: placed.path, data)?.encoded
    header.extensionEnd = tail.map { UInt32($0.count) }
  }

  /// Completes the blob for its followers, and removes it from the key.
  package consuming func commitUnstored() throws(BlobStoreError) {
    do {
      try complete()
      guard let stream = visible else { return }
      store.publisher.withdraw(placed)
      // A record that could not be removed must not become complete.
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

  /// Removes the blob, and reports an error to its followers.
  borrowing func withdraw(_ stream: VisibleStream) {
    store.publisher.withdraw(placed)
    store.core.streams.endWriting(stream.identity, nil)
  }
}
