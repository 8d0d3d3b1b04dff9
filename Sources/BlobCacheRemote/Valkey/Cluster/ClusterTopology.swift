#if Remote
  /// Which server has which keys: one server with all, or the nodes of a cluster.
  struct ClusterTopology: Hashable, Sendable {
    /// Servers that take changes, in the order of their addresses. Replicas are not asked.
    let primaries: [ValkeyAddress]
    /// For each slot, its place in `primaries`. Empty for one server with all.
    private let owners: [UInt16]

    /// Whether the server has told it. One that lets the user not ask may be a node of a cluster all the same.
    let isCertain: Bool

    private static let nobody = UInt16.max

    /// One server with all keys.
    init(single address: ValkeyAddress, isCertain: Bool = true) {
      primaries = [address]
      owners = []
      self.isCertain = isCertain
    }

    var isCluster: Bool { !owners.isEmpty }

    /// What `CLUSTER SLOTS` has answered.
    ///
    /// - Parameter speaker: the node that answered.
    /// - Returns: nil for an answer of another form, or without any slot.
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

    /// The server that has a key; nil if no node has its slot.
    func server(of key: String) -> ValkeyAddress? {
      guard isCluster else { return primaries[0] }
      let owner = owners[ClusterSlot.of(key)]
      return owner == Self.nobody ? nil : primaries[Int(owner)]
    }
  }
#endif

/// Which of the 16,384 parts of a cluster's keys a key is in.
enum ClusterSlot {
  static let count = 16384

  /// - Complexity: O(*n*) for *n* bytes of key.
  static func of(_ key: String) -> Int { Int(crc16(tag(of: key)) % UInt16(count)) }

  /// What the slot is made of: the part between the first braces if there is one, so that keys can share a slot.
  private static func tag(of key: String) -> Substring.UTF8View {
    let bytes = key.utf8
    guard let open = bytes.firstIndex(of: UInt8(ascii: "{")) else { return bytes[...] }
    let start = bytes.index(after: open)
    guard let end = bytes[start...].firstIndex(of: UInt8(ascii: "}")), end > start else { return bytes[...] }
    return bytes[start..<end]
  }

  /// CRC-16 of XMODEM: the polynomial 0x1021, highest bit first.
  private static func crc16(_ bytes: Substring.UTF8View) -> UInt16 {
    bytes.reduce(0) { sum, byte in
      var sum = sum ^ (UInt16(byte) << 8)
      for _ in 0..<8 { sum = sum & 0x8000 == 0 ? sum << 1 : sum << 1 ^ 0x1021 }
      return sum
    }
  }
}
