import BlobRecord
import BlobStore
import Foundation
import Testing

/// The installed sccache with WebDAV: a miss, a store, and a hit.
@Suite(
  .serialized, .timeLimit(.minutes(5)),
  .enabled(if: ClientPrograms.areInstalled("sccache", "gcc"), "there is no sccache with a gcc"))
struct SccacheTests {
  @Test(arguments: [(nil, false), ("project/x86", false), ("project", true)])
  func whatWasCompiledIsNotCompiledAgain(prefix: String?, needsToken: Bool) throws {
    let workplace = try Workplace()
    let server = try ServerProcess(needsToken ? workplace.tokenOptions(keyPrefix: "sccache/project/") : [])
    if needsToken { workplace.environment["SCCACHE_WEBDAV_TOKEN"] = Workplace.token }
    workplace.environment["SCCACHE_WEBDAV_ENDPOINT"] = server.address + "sccache"
    workplace.environment["SCCACHE_WEBDAV_KEY_PREFIX"] = prefix
    // The socket separates this test's sccache server from others.
    workplace.environment["SCCACHE_SERVER_UDS"] = workplace.folder.appending(path: "socket").path
    workplace.environment["SCCACHE_IDLE_TIMEOUT"] = "300"
    try workplace.write("int answer(void) { return 42; }\n", to: "a.c")
    // If the test succeeds, the sccache server has already ended.
    defer { _ = try? workplace.run("sccache", "--stop-server") }
    for isHit in [false, true] {
      try workplace.remove("a.o")
      // Without an explicit start, a compilation starts the server. The server would inherit this process's
      // descriptors, whose closing signals the end of child processes, and would block the test.
      try workplace.run(
        "bash", "-c",
        #"""
        (for file in /proc/$BASHPID/fd/*; do n=${file##*/}; if [ "$n" -gt 2 ]; then eval "exec $n>&-"; fi; done
        exec sccache --start-server)
        """#)
      try workplace.run("sccache", "gcc", "-c", "a.c", "-o", "a.o")
      #expect(workplace.exists("a.o"))
      // A store continues after the compiler's end, and the server finishes it before it exits.
      let statistics = try workplace.run("sccache", "--stop-server")
      func count(_ name: String) -> String? {
        statistics.split(separator: "\n").first { $0.hasPrefix(name + "  ") }?.split(separator: " ").last.map(
          String.init)
      }
      #expect(count("Cache hits") == (isHit ? "1" : "0"), "\(statistics)")
      #expect(count("Cache misses") == (isHit ? "0" : "1"), "\(statistics)")
      #expect(count("Cache errors") == "0", "\(statistics)")
      #expect(count("Cache write errors") == "0", "\(statistics)")
    }
    let keys = try server.store().records(prefix: "sccache/").compactMap(\.key?.string)
    let beginning = "sccache/" + (prefix.map { $0 + "/" } ?? "")
    #expect(
      keys.contains { $0.hasPrefix(beginning) && $0.hasSuffix("/.sccache_check") || $0 == beginning + ".sccache_check" }
    )
    #expect(
      keys.contains { $0.hasPrefix(beginning) && $0.wholeMatch(of: /.*\/\w\/\w\/\w\/[0-9a-f]{64}/) != nil }, "\(keys)")
  }
}
