internal import BlobCache
internal import BlobRecord
internal import BlobStore

extension BlobResponder {
  /// Payloads up to this size are stored as a whole, and larger ones in pieces of this size.
  private static var pieceSize: Int { Upload.pieceSize }

  /// Stores a body if the rule of its key allows that.
  func put(_ key: BlobKey, _ request: ServerRequest) async throws -> ServerResponse {
    try Self.checkFraming(request)
    let rule = KeyRule(key)
    let checked = try rule.checked(request)
    do {
      return try await putChecked(key, checked)
    } catch let refusal as Refusal where rule == .unchanging && refusal.status == 412 {
      throw Refusal(409, "there is such a record, which is not replaced")
    }
  }

  /// Not optimized, for the same reason as `store`.
  @_optimize(none)
  private func putChecked(_ key: BlobKey, _ request: ServerRequest) async throws -> ServerResponse {
    let order = try StoreOrder(request.fields, now: now)
    try checkSize(request.body.byteCount)
    // Nothing is stored, and an existing record remains.
    guard order.lifetime != .none else { return ServerResponse(status: 204) }
    let preconditions = try Preconditions(request.fields, now: now)
    guard order.visibility == .afterCommit || preconditions.areAbsent else {
      throw Refusal(400, "a blob that is seen while it is written takes its place without a condition")
    }
    // An early check spares a useless transfer. Another follows at the commit, because the record can change.
    if !preconditions.areAbsent { try preconditions.checkChange(of: try await validators(of: key)) }
    let change = JudgedChange(preconditions)
    guard let header = try await store(request.body, of: request.caller, for: key, order, change) else {
      throw change.refusal
    }
    return ServerResponse(
      status: change.hasFound ? 204 : 201, fields: ["ETag": EntityTag(header).fieldValue])
  }

  /// Refuses a PUT without a length, because its body may be empty, or the client may have forgotten it.
  private static func checkFraming(_ request: ServerRequest) throws(Refusal) {
    guard case .none = request.body, request.fields.count(of: "Content-Length") == 0,
      request.fields.count(of: "Transfer-Encoding") == 0
    else { return }
    throw Refusal(411, "a PUT has a Content-Length, or a body in chunks")
  }

  private func checkSize(_ byteCount: Int64?) throws(Refusal) {
    guard let byteCount else { return }
    let limits = cache.configuration.store.limits
    let largest = min(limits.payload, limits.size.map { max(0, $0 - Int64(RecordHeader.byteCount)) } ?? .max)
    guard byteCount > largest else { return }
    throw Refusal(413, "the payload has \(byteCount) bytes, and at most \(largest) are stored here")
  }

  /// Not optimized, because the compiler (6.3.1) crashes when it splits the function at its suspension points.
  @_optimize(none)
  private func store(
    _ body: MessageBody, of caller: String?, for key: BlobKey, _ order: StoreOrder, _ change: JudgedChange
  ) async throws -> RecordHeader? {
    // Bytes are taken as they arrive, so that announced bodies that never arrive keep nobody else from storing.
    let inMemory = BodyShare(of: bodies.inMemory, for: caller)
    let onDisk = BodyShare(of: bodies.onDisk, for: caller)
    // The shares last until the payload is stored or removed.
    defer {
      inMemory.giveBack()
      onDisk.giveBack()
    }
    // A payload that has arrived completely has no visible partial state.
    let isWhole =
      switch body {
      case .stream: false;
      default: true
      }
    if isWhole || order.visibility == .afterCommit, let byteCount = body.byteCount,
      isWhole || byteCount <= Int64(Self.pieceSize)
    {
      let payload = try await Self.whole(body, byteCount: Int(byteCount), inMemory)
      return try await withoutRefusedType(order) { order in
        try await cache.store(
          payload, for: key, ttl: order.lifetime.timeToLive, locks: order.locks, extendedData: order.extendedData,
          if: change.allows)
      }
    }
    guard case .stream(let byteCount, let pieces) = body else { throw Refusal(500, "a fault of the server") }
    let upload = Upload(byteCount: byteCount, order.visibility, inMemory: inMemory, onDisk: onDisk)
    return try await store(pieces, upload, for: key, order, change)
  }

  /// - Returns: The header of the new record, or `nil` if the preconditions fail at the commit.
  @_optimize(none)
  private func store(
    _ pieces: any AsyncSequence<Data, any Error> & Sendable, _ begun: Upload, for key: BlobKey, _ order: StoreOrder,
    _ change: JudgedChange
  ) async throws -> RecordHeader? {
    // The lookup precedes the store, because it would find this request's own blob afterwards.
    if order.visibility == .whileWriting { change.note(try await validators(of: key)) }
    var upload = begun
    do {
      for try await piece in pieces {
        guard let gathered = try upload.gather(piece) else { continue }
        try await write(gathered, to: &upload, for: key, order)
      }
      try await write(try upload.finish(), to: &upload, for: key, order)
      if order.visibility == .whileWriting {
        return try await upload.writer?.commit()
      }
      return try await upload.writer?.commit(if: change.allows)
    } catch {
      // The draft is discarded before the response. If this fails, the writer discards it when it is released.
      try? await upload.writer?.discard()
      throw error
    }
  }

  private func write(_ bytes: Data, to upload: inout Upload, for key: BlobKey, _ order: StoreOrder) async throws {
    let writer: CacheWriter
    if let open = upload.writer {
      writer = open
    } else {
      // No size is passed, because it would reserve disk space, even for a request that sends no body.
      writer = try await withoutRefusedType(order) { order in
        try await cache.openWriter(
          for: key, ttl: order.lifetime.timeToLive, locks: order.locks, extendedData: order.extendedData,
          visibility: order.visibility)
      }
      upload.writer = writer
    }
    if !bytes.isEmpty { try await writer.append(bytes) }
    upload.didWrite()
  }

  private static func whole(_ body: MessageBody, byteCount: Int, _ share: BodyShare) async throws -> Data {
    switch body {
    case .none, .omitted, .file: return Data()
    case .bytes(let payload):
      try share.take(Int64(payload.count))
      return payload
    case .stream(_, let pieces):
      var payload = Data(capacity: byteCount)
      for try await piece in pieces {
        try share.take(Int64(piece.count))
        payload.append(piece)
      }
      guard payload.count == byteCount else {
        throw Refusal(400, "\(payload.count) bytes arrived where \(byteCount) were told")
      }
      return payload
    }
  }

  /// A directory that is shared with SPTPersistentCache refuses extended data, so the type is then omitted.
  private func withoutRefusedType<Result>(
    _ order: StoreOrder, _ store: (StoreOrder) async throws -> Result
  ) async throws -> Result {
    do {
      return try await store(order)
    } catch let error as BlobStoreError where error.code == .extendedDataRefused {
      var order = order
      order.extendedData = nil
      return try await store(order)
    }
  }
}

struct StoreOrder {
  let lifetime: RequestedLifetime
  let locks: BlobStore.LockPolicy
  let visibility: BlobStore.Visibility
  /// The content type, or `nil` for `application/octet-stream`.
  var extendedData: Data?

  static let locksName = "X-BlobCache-Locks"
  static let visibilityName = "X-BlobCache-Visibility"

  /// Returns whether the fields of a PUT keep its blob from expiry and eviction.
  static func pins(_ fields: HeaderFields) -> Bool {
    BlobStore.LockPolicy.withNewLock.contains { $0.rawValue == fields[locksName] }
      || fields[RequestedLifetime.fieldName] == RequestedLifetime.endless
  }

  /// Removes the fields with which a PUT keeps its blob from expiry and eviction.
  static func removePins(from fields: inout HeaderFields) {
    fields.remove(locksName)
    if fields[RequestedLifetime.fieldName] == RequestedLifetime.endless { fields.remove(RequestedLifetime.fieldName) }
  }

  init(_ fields: HeaderFields, now: UnixTime) throws(Refusal) {
    // A server must not assemble a payload from parts (RFC 9110, 14.4).
    guard fields["Content-Range"] == nil else { throw Refusal(400, "a part of a payload cannot be stored") }
    // The coding would be lost, and clients would misinterpret the payload.
    if let coding = fields["Content-Encoding"], !coding.isEmpty, coding.lowercased() != "identity" {
      throw Refusal(415, "a coded payload is not stored", fields: ["Accept-Encoding": "identity"])
    }
    lifetime = try RequestedLifetime(fields, now: now)
    if let text = fields[Self.locksName] {
      guard let policy = BlobStore.LockPolicy(rawValue: text) else {
        let policies = BlobStore.LockPolicy.allCases.map(\.rawValue).joined(separator: ", ")
        throw Refusal(400, "\(Self.locksName) must be one of \(policies)")
      }
      locks = policy
    } else {
      locks = .none
    }
    switch fields[Self.visibilityName] {
    case nil, "afterCommit": visibility = .afterCommit
    case "whileWriting": visibility = .whileWriting
    default: throw Refusal(400, "\(Self.visibilityName) must be afterCommit or whileWriting")
    }
    guard let text = fields["Content-Type"] else { return }
    guard let type = MediaType(text) else { throw Refusal(400, "the content type is none") }
    if type.text != MediaType.unknown { extendedData = Data(type.text.utf8) }
  }
}

/// A request body on its way to the disk, whose pieces are gathered into larger ones.
struct Upload {
  static let pieceSize = 256 << 10

  let byteCount: Int64?
  var writer: CacheWriter?
  private var arrived: Int64 = 0
  private var gathered = Data()
  private let visibility: BlobStore.Visibility
  private let inMemory: BodyShare
  private let onDisk: BodyShare

  /// With the visibility `whileWriting`, each piece is written immediately for concurrent readers.
  init(byteCount: Int64?, _ visibility: BlobStore.Visibility, inMemory: BodyShare, onDisk: BodyShare) {
    self.byteCount = byteCount
    self.visibility = visibility
    self.inMemory = inMemory
    self.onDisk = onDisk
  }

  /// - Returns: The bytes to write now, or `nil` while the piece is incomplete.
  /// - Throws: 400 if the body exceeds its specified size; 503 if all bodies together exceed the budget.
  mutating func gather(_ piece: Data) throws(Refusal) -> Data? {
    arrived += Int64(piece.count)
    if let byteCount, arrived > byteCount { throw mismatch(byteCount) }
    try inMemory.take(Int64(piece.count))
    try onDisk.take(Int64(piece.count))
    gathered.append(piece)
    guard gathered.count >= Self.pieceSize || visibility == .whileWriting else { return nil }
    defer { gathered = Data() }
    return gathered
  }

  /// Releases the memory of the bytes that were written.
  func didWrite() { inMemory.giveBack() }

  mutating func finish() throws(Refusal) -> Data {
    if let byteCount, arrived < byteCount { throw mismatch(byteCount) }
    defer { gathered = Data() }
    return gathered
  }

  private func mismatch(_ byteCount: Int64) -> Refusal {
    Refusal(400, "\(arrived) bytes arrived where \(byteCount) were told")
  }
}

extension BlobStore.LockPolicy {
  /// The policies that may lock a blob that was not locked before.
  fileprivate static let withNewLock: [Self] = [.one, .keepOrOne]
}
