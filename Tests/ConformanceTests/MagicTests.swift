#if os(macOS) || os(Linux)
  import Foundation
  import TestSupport
  import Testing

  private let program = "/usr/bin/file"

  /// Checks Spec/blobcache.magic with file(1).
  @Suite(.enabled(if: FileManager.default.isExecutableFile(atPath: program), "there is no file(1)"))
  struct MagicTests {
    static func kind(of path: String) throws -> String {
      let directory = Specification.directory.path
      // The C locale formats dates and escapes identically everywhere.
      let result = try ChildProcess.runSuccessfully(
        [program, "-b", "-m", directory + "/blobcache.magic", directory + "/vectors/records/" + path],
        environment: ["LC_ALL": "C", "TZ": "UTC"])
      return result.text.trimmingCharacters(in: .whitespacesAndNewlines)
    }

    @Test(
      arguments: [
        (
          "pl/plain-check-value",
          "SPTF cache record, locked (refCount 1), ttl 64 s, updated Thu Jan  1 00:24:48 1970 UTC, payload 400 bytes, "
            + "no flags"
        ),
        (
          "a%/a%2Fb%2Fc.png",
          "SPTF cache record, unlocked, ttl 60 s, updated Tue Nov 14 22:13:20 2023 UTC, payload 9 bytes, flags 0x6, "
            + "payload checksum 0x85b2148e, key digest 0xf9b6f5aef1537876"
        ),
        (
          "da/damaged-stream",
          "SPTF cache record, unlocked, ttl default, updated Tue Nov 14 22:13:20 2023 UTC, payload 5 bytes, flags 0x7, "
            + "stream incomplete, payload checksum 0x999beebf, key digest 0xe6bc7ada0557c65b"
        ),
        ("da/damaged-header-size", "SPTF cache record of an unknown version, header of 72 bytes"),
        ("da/damaged-big-endian", "data"),
        ("da/damaged-magic", "data"),
      ])
    func fileRecognisesRecords(path: String, kind: String) throws {
      #expect(try Self.kind(of: path) == kind)
    }
  }
#endif
