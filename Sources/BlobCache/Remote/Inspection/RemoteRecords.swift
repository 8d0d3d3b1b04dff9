package import BlobRecord
package import BlobStore
internal import Posix

/// The records of a namespace in a remote engine, without a directory: what a person looks at, and changes, by a tool.
///
/// Its errors are told, where those of a cache are misses. Each request has a time: `patience` without an answer, or
/// between two pieces of one. An upload has a second for each mebibyte besides.
package struct RemoteRecords: Sendable {
  package let engine: any RemoteEngine
  package let namespace: RemoteNamespace
  package var patience: Duration = .seconds(30)
  /// The clock of that; for tests.
  package var clock: any Clock<Duration> = ContinuousClock()
  /// What records are sealed by; nil where they have no seal.
  package var sealKey: RemoteSealKey?
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
  /// What the engine can do, as it has shown.
  ///
  /// - Throws: `RemoteError`, which names the setting that is wrong.
  package func capabilities() async throws -> RemoteCapabilities {
    try await ask { _ in try await engine.capabilities(under: namespace.prefix) }
  }

  /// The name of a key's object.
  ///
  /// - Throws: `KeyError` for a key without a name.
  package func name(of key: BlobKey) throws(KeyError) -> RemoteName { try namespace.place(of: key).name }

  /// The bytes of a key's object, whatever they are; nil for none.
  ///
  /// - Throws: `RemoteError`; `KeyError` for a key without a name.
  package func bytes(of key: BlobKey) async throws -> Data? {
    let name = try name(of: key)
    return try await ask { pace in
      guard let object = try await engine.get(name) else { return nil }
      var bytes = Data()
      for try await piece in object.pieces {
        pace.move()
        bytes.append(piece)
      }
      if let count = object.byteCount, count != Int64(bytes.count) {
        throw RemoteError(.unreachable, "\(engine.name): \(name) broke off after \(bytes.count) of \(count) bytes")
      }
      return bytes
    }
  }

  /// The blob of a key, judged by every rule of the format; nil for none, and for an expired one.
  ///
  /// - Throws: `RemoteError`, `damaged` for an object that is no record of the key; `KeyError` for a key without a name.
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

  /// Stores a blob in the place of the one that is there.
  ///
  /// - Parameters:
  ///   - payload: the bytes.
  ///   - key: whose blob it becomes.
  ///   - seconds: how long it lives from now on; `Int64.max` for ever.
  /// - Throws: `RemoteError`; `KeyError` for a key without a name.
  package func store(_ payload: Data, for key: BlobKey, ttl seconds: Int64) async throws {
    let place = try RemotePlace(of: key, in: namespace)
    let header = RecordHeader(
      ttl: UInt64(max(1, seconds)), updateTime: UInt64(max(0, now().seconds)), payloadSize: UInt64(payload.count))
    let blob = Blob(key: key, payload: payload, header: header)
    let record = RemoteRecord(blob, defaultExpiration: max(1, seconds), to: place, sealedBy: sealKey)
    try await ask(uploading: record.byteCount) { _ in try await engine.put(record, as: place.name) }
  }

  /// Removes a key's object, if there is one.
  ///
  /// - Throws: `RemoteError`; `KeyError` for a key without a name.
  package func remove(_ key: BlobKey) async throws {
    let name = try name(of: key)
    try await ask { _ in try await engine.remove(name) }
  }
}

// MARK: - Listing

extension RemoteRecords {
  /// An object of the namespace.
  package struct Entry: Sendable {
    package let name: RemoteName
    /// nil where the name does not tell it, or is no record's.
    package let key: BlobKey?
  }

  /// Objects of the namespace, in the engine's order, a page at a time.
  ///
  /// - Parameters:
  ///   - prefix: what the keys begin with. Where names do not tell keys, only the empty one has any.
  ///   - page: what came with the page before; nil for the first.
  /// - Throws: `RemoteError`, `unsupported` where the engine cannot list.
  package func page(prefix: String, _ page: String?) async throws -> (entries: [Entry], next: String?) {
    let names = namespace.prefix(ofKeysBeginning: prefix)
    let found = try await ask { _ in try await engine.list(names, page: page) }
    let entries = found.names.map { Entry(name: $0, key: namespace.key(of: $0)) }
    return (prefix.isEmpty ? entries : entries.filter { $0.key?.hasPrefix(prefix) == true }, found.next)
  }

  /// The header of an object; nil for no object, and for one that begins with something else.
  ///
  /// - Throws: `RemoteError`.
  package func header(of name: RemoteName) async throws -> RecordHeader? {
    guard let head = try await ask({ _ in try await engine.head(name) }) else { return nil }
    // Why it is no record matters to `get`, which tells; a list shows such an object by its name alone.
    return try? RecordHeader(decoding: head.bytes)
  }
}

extension RemoteNamespace {
  /// What the names of all keys that begin so begin with.
  func prefix(ofKeysBeginning beginning: String) -> RemoteName {
    let layout = RecordLayout(naming: naming, arrangement: .prefix)
    // A beginning that has no name of its own costs a longer search, which finds the same.
    guard let start = try? naming.fileNamePrefix(forKeyPrefix: beginning) else { return prefix }
    let subdirectory = layout.subdirectory(ofFileNamesBeginning: start)
    return subdirectory.isEmpty ? prefix : RemoteName("\(prefix)\(subdirectory)/\(start)")
  }

  /// The key of an object; nil where its name does not tell it, or is no record's.
  func key(of name: RemoteName) -> BlobKey? {
    // By bytes: a mark behind a slash is one character with it.
    let bytes = name.string.utf8
    guard bytes.starts(with: prefix.string.utf8), let slash = bytes.lastIndex(of: UInt8(ascii: "/")),
      let file = String(bytes[bytes.index(after: slash)...]), let key = naming.key(ofFileName: file)
    else { return nil }
    // A file in another place is foreign, and so is one whose key has no place.
    return (try? place(of: key).name).map { $0.string.utf8.elementsEqual(bytes) } == true ? key : nil
  }
}
