#if Remote
  public import BlobCache
  internal import BlobRecord
  internal import Locks
  internal import Synchronization

  /// A bucket of Amazon S3 or of a compatible server.
  ///
  /// Requests are signed with Signature Version 4. Each upload contains the CRC-32 of its bytes. Conditions are used
  /// only after a probe showed that the server enforces them (`capabilities(under:)`).
  public final class S3Engine: RemoteEngine {
    public let settings: Settings
    public let name: String
    let transport: HTTPTransport
    let signature: SignatureV4
    let credentials: CredentialCache
    /// The seconds by which the server's clock is ahead, as it stated when it refused a request's time.
    let clockOffset = Atomic<Int64>(0)
    let seen = Lock<RemoteCapabilities?>(nil)
    let leaseLookup = Lock<(outcome: Outcome<RemoteCapabilities>, end: ContinuousClock.Instant)?>(nil)

    /// Creates an engine without connecting to the server or reading credentials.
    ///
    /// - Parameter settings: The settings of the engine.
    /// - Throws: `RemoteSettingError` for invalid settings.
    public init(_ settings: Settings) throws(RemoteSettingError) {
      let place = try settings.place()
      self.settings = settings
      name = "s3://\(settings.bucket)" + (settings.endpoint.map { " at \($0)" } ?? "")
      transport = try HTTPTransport(
        place, of: name, settings.security,
        HTTPTransport.Limits(connections: settings.connections, connectTime: settings.connectTime))
      signature = SignatureV4(region: settings.region)
      credentials = CredentialCache(settings.credentials, now: settings.now)
    }

    /// Amazon's limit for a single upload, in bytes.
    public var largestObject: Int64? { 5 << 30 }

    public func get(_ name: RemoteName) async throws -> RemoteObject? {
      let answer = try await send("GET", name)
      if answer.status == 200 { return answer.object }
      try await expectAbsence(answer, "GET", name)
      return nil
    }

    public func head(_ name: RemoteName) async throws -> Data? {
      let answer = try await send("GET", name, fields: [("range", "bytes=0-63")])
      switch answer.status {
      case 200, 206: return try await answer.bytes(upTo: 64)
      case 416:
        try await answer.finish()
        return Data()
      default:
        try await expectAbsence(answer, "GET", name)
        return nil
      }
    }

    public func put(_ record: RemoteRecord, as name: RemoteName) async throws {
      let answer = try await send(
        "PUT", name, fields: checksumFields(record.checksum), body: record.bytes.map { .bytes($0) } ?? .record(record))
      guard answer.status == 200 else { throw try await failure(answer, "PUT", name) }
      try await answer.finish()
    }

    /// Returns the field of an upload's CRC-32, or none if the settings turn it off.
    func checksumFields(_ checksum: UInt32) -> [(name: String, value: String)] {
      guard settings.sendsChecksums else { return [] }
      let bytes = Data([24, 16, 8, 0].map { UInt8(truncatingIfNeeded: checksum >> $0) })
      return [("x-amz-checksum-crc32", bytes.base64EncodedString())]
    }

    public func remove(_ name: RemoteName) async throws {
      let answer = try await send("DELETE", name)
      if (200..<300).contains(answer.status) { return try await answer.finish() }
      try await expectAbsence(answer, "DELETE", name)
    }

    /// The maximum number of empty pages before a page with names. A server could otherwise send them without end.
    private static let emptyPageLimit = 100

    public func list(_ prefix: RemoteName, page: String?) async throws -> RemotePage {
      var page = page
      for _ in 0..<Self.emptyPageLimit {
        let found = try await onePage(prefix, page)
        guard found.names.isEmpty, let next = found.next else { return found }
        page = next
      }
      throw RemoteError(
        .failed, "\(name): \(Self.emptyPageLimit) pages of the list have no name; look at the endpoint")
    }

    private func onePage(_ prefix: RemoteName, _ page: String?) async throws -> RemotePage {
      var parameters = [("list-type", "2"), ("prefix", prefix.string)]
      if let page { parameters.append(("continuation-token", page)) }
      let answer = try await send("GET", nil, parameters: parameters)
      guard answer.status == 200 else { throw try await failure(answer, "list", prefix) }
      // A page has at most a thousand names of 1,024 escaped bytes each, and their markup.
      let root = XMLElement(try await answer.bytes(upTo: 1 << 24))
      guard let root, root.name == "ListBucketResult" else {
        throw RemoteError(.failed, "\(name): the list is no ListBucketResult; look at the endpoint")
      }
      let names = root.children.filter { $0.name == "Contents" }.compactMap { $0["Key"] }
      let next = root["IsTruncated"] == "true" ? root["NextContinuationToken"] ?? "" : nil
      guard next != "", next == nil || next != page else {
        throw RemoteError(.failed, "\(name): the list says that there is more, and not how to ask for it")
      }
      return RemotePage(names: names.map { RemoteName($0) }, next: next)
    }

    public func close() async { await transport.close() }
  }
#endif
