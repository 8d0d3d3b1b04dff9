import Foundation
import Posix
import SystemPackage
import Testing

#if canImport(Glibc)
  import Glibc
#elseif canImport(Musl)
  import Musl
#elseif canImport(Android)
  import Android
#endif

#if os(Linux)
  /// Uses the kernel's file, because a test file would behave differently: the kernel's file has no offset, and
  /// rejects invalid triggers.
  @Suite(.enabled(if: FileManager.default.fileExists(atPath: "/proc/pressure/memory"), "the kernel counts no stalls"))
  struct PressureFileTests {
    private static let path: FilePath = "/proc/pressure/memory"

    /// Opens two watches, like two processes, because each open file accepts one trigger.
    private static func watches(_ triggers: [String]) throws -> EventWait.Outcome {
      let files = Files()
      let watched = try triggers.compactMap { try files.watchedFile(at: path, writing: $0) }
      guard watched.count == triggers.count else { throw Errno.noSuchFileOrDirectory }
      return try EventWait(files: files).next(of: watched, timeoutMilliseconds: 0)
    }

    @Test(.enabled(if: geteuid() == 0 || isLinux(6, 5), "only the superuser may, before Linux 6.5"))
    func kernelTakesTheTriggers() throws {
      // A file without a trigger is reported as gone.
      let outcome = try Self.watches(["some 200000 2000000\n", "full 200000 2000000\n"])
      guard case .events(_, gone: let gone) = outcome else { return #expect(outcome == .timeout) }
      #expect(gone.isEmpty)
    }

    @Test func kernelRefusesWhatIsNoTrigger() {
      #expect(throws: FileError.self) { try Self.watches(["most 200000 2000000\n"]) }
    }

    /// Since Linux 6.5 any user may set triggers, with windows of a multiple of two seconds.
    @Test(.enabled(if: geteuid() == 0 && isLinux(6, 5), "needs the superuser, to become another, and Linux 6.5"))
    func kernelTakesTheTriggersOfAnyUser() async {
      await #expect(processExitsWith: .success) {
        try #require(setgroups(0, nil) == 0 && setgid(65_534) == 0 && setuid(65_534) == 0)
        let outcome = try Self.watches(["some 200000 2000000\n", "full 200000 2000000\n"])
        guard case .events(_, gone: let gone) = outcome else { return #expect(outcome == .timeout) }
        #expect(gone.isEmpty)
      }
    }
  }

  /// A Boolean value that indicates whether the kernel has at least this version.
  private func isLinux(_ major: Int, _ minor: Int) -> Bool {
    let version = ProcessInfo.processInfo.operatingSystemVersion
    return (version.majorVersion, version.minorVersion) >= (major, minor)
  }
#endif
