package import BlobRecord
package import BlobStore
internal import Posix

/// The records of a namespace in a remote engine, which a tool reads and changes without a directory.
///
/// Unlike a cache, it throws the engine's errors. A request times out after `patience` without an answer or between
/// two pieces of one; an upload gets an additional second for each mebibyte.
package struct RemoteRecords: Sendable {
  package let engine: any RemoteEngine
  package let namespace: RemoteNamespace
  package var patience: Duration = .seconds(30)
  /// The clock of `patience`; replaced in tests.
  package var clock: any Clock<Duration> = ContinuousClock()
  package var sealKey: RemoteSealKey?
  /// The largest object that is read, in bytes, because it is held in memory. A cache's remote tier has the same default.
  package var largestObject = Int64(1 << 30) + Int64(RemoteTier.overheadByteCount)
  package var now: @Sendable () -> UnixTime = { UnixTime(seconds: SystemClock.unixSeconds()) }

  package init(_ engine: any RemoteEngine, namespace: RemoteNamespace) {
    self.engine = engine
    self.namespace = namespace
  }

  private func ask<Answer: Sendable>(
    uploading byteCount: Int = 0, _ body: @escaping @Sendable (Deadline.Pace) async throws -> Answer
  ) async throws -> Answer {
    let time = patience + RemoteTier.Deadlines().perMebibyte * (Double(byteCount) / Double(1 << 20))
    return try await Deadline(clock: clock).run(first: time, progress: time, engine.name, body)
  }
}

extension RemoteRecords {
  package func capabilities() async throws -> RemoteCapabilities {
    try await ask { _ in try await engine.capabilities(under: namespace.prefix) }
  }

  package func name(of key: BlobKey) throws(KeyError) -> RemoteName { try namespace.place(of: key).name }

  /// Returns the unchecked bytes of a key's object.
  ///
  /// - Throws: `RemoteError`, with the kind `unsupported` for an object of more than `largestObject` bytes.
  package func bytes(of key: BlobKey) async throws -> Data? {
    let name = try name(of: key)
    return try await ask { pace in
      guard let object = try await engine.get(name) else { return nil }
      func check(_ byteCount: Int64) throws(RemoteError) {
        guard byteCount > largestObject else { return }
        throw RemoteError(.unsupported, "\(engine.name): \(name) is longer than \(largestObject) bytes")
      }
      try check(object.byteCount ?? 0)
      var bytes = Data()
      for try await piece in object.pieces {
        pace.move()
        bytes.append(piece)
        // The size may be unknown, and a body may have no end.
        try check(Int64(bytes.count))
      }
      if let count = object.byteCount, count != Int64(bytes.count) {
        throw RemoteError(.unreachable, "\(engine.name): \(name) broke off after \(bytes.count) of \(count) bytes")
      }
      return bytes
    }
  }

  /// Loads the live blob of a key, and throws `RemoteError` with the kind `damaged` if it violates the format.
  package func load(_ key: BlobKey) async throws -> Blob? {
    guard let bytes = try await bytes(of: key) else { return nil }
    let place = try RemotePlace(of: key, in: namespace)
    var arriving = ArrivingRecord(
      at: place, statedByteCount: Int64(bytes.count), most: Int64(bytes.count),
      seal: sealKey.map { RecordSeal($0, of: place.name) }, now: now(), from: engine.name)
    let payload = try arriving.take(bytes)
    guard !arriving.isExpired else { return nil }
    let end = try arriving.end()
    return Blob(key: key, payload: payload, header: end.header, extendedData: end.extendedData)
  }

  /// Stores a blob with a time to live in seconds, `Int64.max` for no expiration, and replaces an existing blob.
  package func store(_ payload: Data, for key: BlobKey, ttl seconds: Int64) async throws {
    let place = try RemotePlace(of: key, in: namespace)
    let header = RecordHeader(
      ttl: UInt64(max(1, seconds)), updateTime: UInt64(max(0, now().seconds)), payloadSize: UInt64(payload.count))
    let blob = Blob(key: key, payload: payload, header: header)
    let record = RemoteRecord(blob, defaultExpiration: max(1, seconds), to: place, sealedBy: sealKey)
    try await ask(uploading: record.byteCount) { _ in try await engine.put(record, as: place.name) }
  }

  package func remove(_ key: BlobKey) async throws {
    let name = try name(of: key)
    try await ask { _ in try await engine.remove(name) }
  }
}

// MARK: - Listing

extension RemoteRecords {
  package struct Entry: Sendable {
    package let name: RemoteName
    /// The key, or `nil` if the name does not contain it or is not a record's name.
    package let key: BlobKey?
  }

  /// Returns a page of the objects of the namespace, in the engine's order.
  ///
  /// - Parameter prefix: The prefix of the keys. If names do not contain keys, only the empty prefix finds objects.
  package func page(prefix: String, _ page: String?) async throws -> (entries: [Entry], next: String?) {
    let names = namespace.prefix(ofKeysBeginning: prefix)
    let found = try await ask { _ in try await engine.list(names, page: page) }
    let entries = found.names.map { Entry(name: $0, key: namespace.key(of: $0)) }
    return (prefix.isEmpty ? entries : entries.filter { $0.key?.hasPrefix(prefix) == true }, found.next)
  }

  /// Returns the header of an object, or `nil` if it does not begin with one.
  package func header(of name: RemoteName) async throws -> RecordHeader? {
    guard let head = try await ask({ _ in try await engine.head(name) }) else { return nil }
    // A list only shows the name of such an object; `get` reports why it is not a record.
    return try? RecordHeader(decoding: head.bytes)
  }
}

extension RemoteNamespace {
  func prefix(ofKeysBeginning beginning: String) -> RemoteName {
    let layout = RecordLayout(naming: naming, arrangement: .prefix)
    // If the prefix cannot be part of a name, the listing is longer, with the same result.
    guard let start = try? naming.fileNamePrefix(forKeyPrefix: beginning) else { return prefix }
    let subdirectory = layout.subdirectory(ofFileNamesBeginning: start)
    return subdirectory.isEmpty ? prefix : RemoteName("\(prefix)\(subdirectory)/\(start)")
  }

  /// Returns the key of a record's object if the name contains it.
  func key(of name: RemoteName) -> BlobKey? {
    // Bytes are compared, because a slash and a combining mark behind it form one character.
    let bytes = name.string.utf8
    guard bytes.starts(with: prefix.string.utf8), let slash = bytes.lastIndex(of: UInt8(ascii: "/")),
      let file = String(bytes[bytes.index(after: slash)...]), let key = naming.key(ofFileName: file)
    else { return nil }
    // An object whose name differs from its key's name is foreign, and so is one whose key has no name.
    return (try? place(of: key).name).map { $0.string.utf8.elementsEqual(bytes) } == true ? key : nil
  }
}
