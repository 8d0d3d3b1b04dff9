#if Remote
  public import BlobCache
  internal import BlobRecord
  internal import NIOCore
  internal import NIOFoundationCompat
  internal import Synchronization

  /// A remote engine on Valkey or Redis, for a single server or a cluster.
  ///
  /// Each object is a string under its name, which the server removes one minute after the record's expiry. The engine
  /// follows changes of a cluster. It is intended for small blobs, because both sides hold an object in memory.
  public final class ValkeyEngine: RemoteEngine {
    /// The URL `valkey://HOST:PORT`, or `valkeys` with TLS, with all servers and the database.
    public let name: String
    public let settings: Settings
    let servers: ValkeyServers
    let now: @Sendable () -> UnixTime
    /// A Boolean value that indicates whether the server lacks `DELIFEQ`, which requires Valkey 9.
    let lacksConditionalDelete = Atomic(false)

    /// The size of the first request for an object, which is small so that a transfer begins soon on a slow network.
    static let firstByteCount = 1 << 18
    static let pieceByteCount = 1 << 20
    /// The number of seconds for which the server retains an expired object, because clocks differ.
    static let grace: Int64 = 60
    /// Ten thousand years in seconds. The server refuses times that overflow its clock.
    static let longestLife: Int64 = 10_000 * 365 * 86400

    /// Creates an engine without connecting to a server.
    ///
    /// - Parameter settings: The settings of the engine.
    /// - Throws: `RemoteSettingError` for invalid values or files, and unencrypted connections to another machine.
    public convenience init(_ settings: Settings) throws(RemoteSettingError) {
      try self.init(settings) { UnixTime(seconds: Int64(Date().timeIntervalSince1970.rounded(.down))) }
    }

    init(_ settings: Settings, now: @escaping @Sendable () -> UnixTime) throws(RemoteSettingError) {
      try settings.check()
      let scheme = settings.security == nil ? "valkey" : "valkeys"
      let addresses = settings.servers.map(\.description).joined(separator: ",")
      name = "\(scheme)://\(addresses)" + (settings.database == 0 ? "" : "/\(settings.database)")
      self.settings = settings
      self.now = now
      let failure = ValkeyFailure(
        engine: name, user: settings.user ?? "default", database: settings.database,
        isEncrypted: settings.security != nil)
      servers = ValkeyServers(settings, try ValkeyDialer(settings, failure))
    }

    public var largestObject: Int64? { settings.largestObject }

    /// Reads the first 256 KiB of an object, and the remaining pieces on demand.
    ///
    /// A concurrent replacement causes an error or a wrong checksum. An empty string is not an object.
    public func get(_ name: RemoteName) async throws -> RemoteObject? {
      let first = try await range(of: name, 0, Self.firstByteCount)
      guard !first.isEmpty else { return nil }
      guard first.count == Self.firstByteCount else { return RemoteObject(first) }
      let reply = try await servers.reply(to: RESPCommand("STRLEN", name.string), of: name.string)
      guard let count = reply.integer, count >= first.count else { throw changed(name) }
      return RemoteObject(
        byteCount: count, pieces: ValkeyPieces(engine: self, name: name, first: first, byteCount: count))
    }

    public func head(_ name: RemoteName) async throws -> Data? {
      let head = try await range(of: name, 0, RecordHeader.byteCount)
      return head.isEmpty ? nil : head
    }

    func range(of name: RemoteName, _ start: Int64, _ count: Int) async throws -> Data {
      let command = RESPCommand("GETRANGE", name.string, "\(start)", "\(start + Int64(count) - 1)")
      let reply = try await servers.reply(to: command, of: name.string)
      guard case .bulk(let bytes) = reply else { throw unexpected("GETRANGE") }
      return Data(buffer: bytes)
    }

    /// Stores a record, or removes the existing object if the record has expired.
    public func put(_ record: RemoteRecord, as name: RemoteName) async throws {
      guard Int64(record.byteCount) <= settings.largestObject else {
        throw RemoteError(
          .unsupported,
          "\(self.name) takes objects of \(settings.largestObject) bytes at the most, and \(name) has \(record.byteCount); set largestObject, or keep large blobs in an object store"
        )
      }
      let (life, overflow) = record.expiry.seconds.subtractingReportingOverflow(now().seconds)
      guard overflow || life >= 0 else { return try await remove(name) }
      var value = ByteBuffer()
      value.reserveCapacity(record.byteCount)
      if let bytes = record.bytes {
        value.writeBytes(bytes)
      } else {
        for try await piece in record.pieces { value.writeBytes(piece) }
      }
      // A large value occupies its connection for a long time, so loads use other connections.
      let isLarge = value.readableBytes > ValkeyServers.smallByteCount
      let isLimited = !overflow && life <= Self.longestLife
      let command = RESPCommand(
        ["SET", name.string], value: value, isLimited ? ["PX", "\((life + Self.grace) * 1000)"] : [])
      _ = try await servers.reply(to: command, of: name.string, isLarge: isLarge)
    }

    public func remove(_ name: RemoteName) async throws {
      _ = try await servers.reply(to: RESPCommand("UNLINK", name.string), of: name.string)
    }

    public func close() async { servers.close() }

    func changed(_ name: RemoteName) -> RemoteError {
      RemoteError(.failed, "\(self.name): \(name) was replaced while it was read")
    }

    func unexpected(_ command: String) -> RemoteError {
      RemoteError(.failed, "\(name) answers \(command) with a value of another type")
    }
  }

  /// An object in pieces of one mebibyte, after a smaller first one, which are read on demand.
  struct ValkeyPieces: AsyncSequence, Sendable {
    typealias Element = Data
    typealias Failure = any Error

    let engine: ValkeyEngine
    let name: RemoteName
    let first: Data
    let byteCount: Int64

    func makeAsyncIterator() -> Iterator { Iterator(object: self) }

    struct Iterator: AsyncIteratorProtocol {
      let object: ValkeyPieces
      private var position: Int64 = 0

      init(object: ValkeyPieces) { self.object = object }

      mutating func next() async throws -> Data? {
        guard position > 0 else {
          position = Int64(object.first.count)
          return object.first
        }
        let rest = object.byteCount - position
        guard rest > 0 else { return nil }
        let count = Int(Swift.min(rest, Int64(ValkeyEngine.pieceByteCount)))
        let piece = try await object.engine.range(of: object.name, position, count)
        guard piece.count == count else { throw object.engine.changed(object.name) }
        position += Int64(count)
        return piece
      }
    }
  }
#endif
