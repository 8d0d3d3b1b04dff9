import NIOCore
import Testing

@testable import BlobCacheRemote

@Suite struct ClusterTopologyTests {
  /// The first is the check value of the checksum; the others were computed by a server.
  @Test(arguments: [
    ("123456789", 12739), ("foo", 12182), ("bar", 5061), ("{foo}1", 12182), ("a{foo}{bar}", 12182), ("", 0),
  ])
  func eachKeyHasASlot(_ key: String, _ slot: Int) {
    #expect(ClusterSlot.of(key) == slot)
  }

  @Test(arguments: ["a{foo", "{}foo", "{}{foo}", "foo}"]) func otherBracesAreNoTag(_ key: String) {
    #expect(ClusterSlot.of(key) != ClusterSlot.of("foo"))
  }

  @Test(arguments: [
    ("localhost", true), ("::1", true), ("127.0.0.1", true), ("127.255.0.9", true), ("127.evil.example", false),
    ("127.0.0.evil", false), ("127.0.0.256", false), ("127.0.0.01", false), ("127.0.0.1.", false), ("127.0.0", false),
    ("10.0.0.1", false), ("localhost.example", false), ("", false),
  ])
  func thisMachineIsKnown(_ host: String, _ isThis: Bool) { #expect(ValkeyAddress(host).isThisMachine == isThis) }

  private static let speaker = ValkeyAddress("10.0.0.9", port: 7000)

  private static func read(_ text: String) throws -> ClusterTopology? {
    var (decoder, bytes) = (RESPDecoder(), ByteBuffer(string: text.replacing(" ", with: "\r\n") + "\r\n"))
    let value = try #require(try decoder.next(from: &bytes))
    return ClusterTopology(slots: value, from: speaker)
  }

  @Test func slotsHavePrimaries() throws {
    let topology = try #require(
      try Self.read(
        "*3 *4 :0 :5000 *4 $8 10.0.0.2 :7001 $1 a *0 *3 $8 10.0.0.3 :7003 $1 r *3 :5001 :12000 *3 $0  :7002 $1 b "
          + "*3 :12183 :16383 *2 $1 ? :7000"))
    #expect(topology.isCluster)
    #expect(
      topology.primaries == [
        ValkeyAddress("10.0.0.2", port: 7001), Self.speaker, ValkeyAddress("10.0.0.9", port: 7002),
      ])
    // `bar` has slot 5061. `foo` has slot 12182, which belongs to no node.
    #expect(topology.server(of: "bar") == ValkeyAddress("10.0.0.9", port: 7002))
    #expect(topology.server(of: "foo") == nil)
    #expect(topology.server(of: "") == ValkeyAddress("10.0.0.2", port: 7001))
  }

  @Test(arguments: [
    "+OK", "*0", "_", "*1 *2 :0 :5", "*1 *3 :0 :16384 *2 $1 a :1", "*1 *3 :5 :4 *2 $1 a :1", "*1 *3 :-1 :4 *2 $1 a :1",
    "*1 *3 :0 :1 *2 $1 a :0", "*1 *3 :0 :1 *2 $1 a :65536", "*1 *3 :0 :1 *1 $1 a", "*1 *3 :0 :1 :5", "*1 :5",
  ])
  func otherAnswersAreNone(_ text: String) throws { #expect(try Self.read(text) == nil) }

  @Test(
    arguments: [
      ("10.0.0.1:7000", ValkeyAddress("10.0.0.1", port: 7000)), (":7001", ValkeyAddress("10.0.0.9", port: 7001)),
      ("?:7001", ValkeyAddress("10.0.0.9", port: 7001)), ("fe80::1:7002", ValkeyAddress("fe80::1", port: 7002)),
      ("host", nil), ("host:", nil), ("host:0", nil), ("host:65536", nil), ("host:x", nil),
    ] as [(String, ValkeyAddress?)])
  func addressesAreReadAsNodesSayThem(_ text: String, _ address: ValkeyAddress?) {
    #expect(ValkeyAddress(text, from: Self.speaker) == address)
  }
}
