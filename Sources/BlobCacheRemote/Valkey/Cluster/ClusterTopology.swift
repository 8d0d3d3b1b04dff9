#if Remote
  struct ClusterTopology: Hashable, Sendable {
    /// The servers that accept changes, sorted by address. Replicas are not used.
    let primaries: [ValkeyAddress]
    /// The index in `primaries` for each slot, or an empty array for a single server.
    private let owners: [UInt16]

    /// `false` if the server has denied the query, because it may be a node of a cluster with unknown nodes.
    let isCertain: Bool

    private static let nobody = UInt16.max

    init(single address: ValkeyAddress, isCertain: Bool = true) {
      primaries = [address]
      owners = []
      self.isCertain = isCertain
    }

    var isCluster: Bool { !owners.isEmpty }

    /// Parses a reply to `CLUSTER SLOTS`, or returns `nil` if it has another form or no slots.
    init?(slots: RESPValue, from speaker: ValkeyAddress) {
      guard let ranges = slots.elements, !ranges.isEmpty else { return nil }
      var parts: [(ClosedRange<Int>, ValkeyAddress)] = []
      for range in ranges {
        guard let facts = range.elements, facts.count >= 3, let first = facts[0].integer, let last = facts[1].integer,
          0 <= first, first <= last, last < ClusterSlot.count, let node = facts[2].elements, node.count >= 2,
          let port = node[1].integer, (1...65535).contains(port)
        else { return nil }
        let host = node[0].text ?? ""
        parts.append(
          (
            Int(first)...Int(last),
            ValkeyAddress(host.isEmpty || host == "?" ? speaker.host : host, port: Int(port))
          ))
      }
      primaries = Set(parts.map(\.1)).sorted()
      var owners = Array(repeating: Self.nobody, count: ClusterSlot.count)
      for (slots, address) in parts {
        guard let place = primaries.firstIndex(of: address) else { continue }
        for slot in slots { owners[slot] = UInt16(place) }
      }
      self.owners = owners
      isCertain = true
    }

    func server(of key: String) -> ValkeyAddress? {
      guard isCluster else { return primaries[0] }
      let owner = owners[ClusterSlot.of(key)]
      return owner == Self.nobody ? nil : primaries[Int(owner)]
    }
  }
#endif

enum ClusterSlot {
  static let count = 16384

  static func of(_ key: String) -> Int { Int(crc16(tag(of: key)) % UInt16(count)) }

  /// The slot depends on the hash tag in the first braces if it is not empty, so that keys can share a slot.
  private static func tag(of key: String) -> Substring.UTF8View {
    let bytes = key.utf8
    guard let open = bytes.firstIndex(of: UInt8(ascii: "{")) else { return bytes[...] }
    let start = bytes.index(after: open)
    guard let end = bytes[start...].firstIndex(of: UInt8(ascii: "}")), end > start else { return bytes[...] }
    return bytes[start..<end]
  }

  /// CRC-16/XMODEM, with the polynomial 0x1021 and the most significant bit first.
  private static func crc16(_ bytes: Substring.UTF8View) -> UInt16 {
    bytes.reduce(0) { sum, byte in
      var sum = sum ^ (UInt16(byte) << 8)
      for _ in 0..<8 { sum = sum & 0x8000 == 0 ? sum << 1 : sum << 1 ^ 0x1021 }
      return sum
    }
  }
}
