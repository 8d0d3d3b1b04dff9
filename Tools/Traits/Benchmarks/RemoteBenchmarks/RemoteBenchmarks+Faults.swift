import BlobCacheRemote
import Foundation

extension RemoteBenchmarks {
  /// Measures a thousand loads of a thousand keys, while the engine accepts connections and never responds.
  static func loadsWithHungEngine() async throws {
    let (listener, port) = try silentListener()
    defer { close(listener) }
    let hung = try RemoteURL("http://127.0.0.1:\(port)/")
    let keys = (0..<1000).map { BlobKey("\($0)") }
    let kinds: [(name: String, load: (BlobCache) async throws -> Void)] = [
      ("one after another", { cache in for key in keys { _ = try await cache.load(key) } }),
      ("by one call", { cache in _ = try await cache.load(keys) }),
    ]
    for kind in kinds {
      var (slow, fast, failures): ([Double], [Double], [Int64]) = ([], [], [])
      var bound = 0.0
      for _ in 0..<3 {
        let tier = RemoteTier(try hung.makeEngine(), namespace: hung.namespace)
        bound = Double(tier.breaker.failures) * (tier.deadlines.firstByte / .seconds(1))
        let (with, without) = (try Node(tier), try Node(nil))
        slow.append(try await time { try await kind.load(with.cache) } / 1e6)
        fast.append(try await time { try await kind.load(without.cache) } / 1e6)
        failures.append(with.cache.remoteStatus?.failures ?? 0)
        for node in [with, without] { try await node.end() }
      }
      let more = zip(slow, fast).map { $0 - $1 }.max() ?? 0
      print(
        "1,000 loads \(kind.name) while the engine hangs | without a tier | "
          + String(format: "%.3f s | %.3f s | %.3f s more at the most", median(slow), median(fast), more)
          + ", \(failures) requests failed | at most \(bound) s more")
    }
  }

  /// Returns a socket whose connections the system accepts without a response.
  private static func silentListener() throws -> (descriptor: Int32, port: UInt16) {
    let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
    var length = socklen_t(MemoryLayout<sockaddr_in>.size)
    let isListening = withUnsafeMutablePointer(to: &address) { pointer in
      pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
        bind(descriptor, address, length) == 0 && listen(descriptor, 1024) == 0
          && getsockname(descriptor, address, &length) == 0
      }
    }
    guard descriptor >= 0, isListening else { throw POSIXError(.EADDRNOTAVAIL) }
    return (descriptor, UInt16(bigEndian: address.sin_port))
  }
}
