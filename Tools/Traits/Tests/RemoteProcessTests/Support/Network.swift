import Foundation

/// A Linux network namespace with a program, which ends with the program.
final class Network: Sendable {
  let server: EngineServer

  /// The reason why namespaces are unavailable, or `nil` if they are available.
  static let missing: String? = {
    #if os(Linux)
      let process = Process()
      process.executableURL = URL(filePath: "/usr/bin/env")
      process.arguments = ["unshare", "-n", "ip", "link", "add", "one", "type", "veth", "peer", "name", "other"]
      process.standardError = FileHandle.nullDevice
      do { try process.run() } catch { return "no network namespaces: \(error)" }
      process.waitUntilExit()
      return process.terminationStatus == 0 ? nil : "no network namespaces: they need unshare, ip, root and veth"
    #else
      return "no network namespaces: they are Linux's"
    #endif
  }()

  /// - Parameter command: The program's path and its arguments, for a directory. `begin` starts the program.
  init(_ name: String, _ command: (URL) throws -> [String]) async throws {
    server = try await EngineServer(name) { directory in
      let wait = #"ip link set lo up && : >"$0/up" && while [ ! -e "$0/go" ]; do sleep 0.02; done && exec "$@""#
      return ["/usr/bin/env", "unshare", "-n", "sh", "-c", wait, directory.path] + (try command(directory))
    } isReady: {
      FileManager.default.fileExists(atPath: $0.directory.appending(path: "up").path)
    }
  }

  func begin() throws { try Data().write(to: server.directory.appending(path: "go")) }

  /// Runs a program in the namespace.
  func run(_ command: String...) async throws {
    let run = try await Programs.run(["/usr/bin/env", "nsenter", "-t", "\(server.processIdentifier)", "-n"] + command)
    guard run.status == 0 else { throw Failure("\(command): \(run.errors)") }
  }

  /// Connects two namespaces by a virtual Ethernet link.
  ///
  /// - Parameters:
  ///   - cable: The interface name at this end.
  ///   - prefix: The prefix of the addresses, such as `10.77.1`: `.1` is this end, `.2` the other one.
  func connect(to other: Network, _ cable: String, _ prefix: String) async throws {
    let there = "\(other.server.processIdentifier)"
    try await run("ip", "link", "add", cable, "type", "veth", "peer", "name", "cable", "netns", there)
    for (network, name, end) in [(self, cable, 1), (other, "cable", 2)] {
      try await network.run("ip", "address", "add", "\(prefix).\(end)/24", "dev", name)
      try await network.run("ip", "link", "set", name, "up")
    }
  }
}
