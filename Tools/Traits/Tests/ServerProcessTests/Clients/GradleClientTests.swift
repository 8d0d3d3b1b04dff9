import BlobRecord
import BlobStore
import Foundation
import Testing

/// The installed Gradle: a miss, a store, and a hit.
@Suite(
  .serialized, .timeLimit(.minutes(10)),
  .enabled(
    if: ClientPrograms.runsSlowOnes && ClientPrograms.areInstalled("gradle", "javac"),
    "there is no gradle with a javac, or BLOBCACHE_SLOW_CLIENTS is not set"))
struct GradleClientTests {
  @Test func whatWasBuiltIsNotBuiltAgain() throws {
    let workplace = try Workplace()
    let server = try ServerProcess(workplace.tokenOptions(keyPrefix: "gradle/"))
    try workplace.write(
      """
      buildCache {
        local { enabled = false }
        remote(HttpBuildCache) {
          url = '\(server.address)gradle/'
          push = true
          credentials { username = 'any'; password = '\(Workplace.token)' }
        }
      }
      """, to: "settings.gradle")
    try workplace.write(
      """
      task shout {
        inputs.file('in.txt')
        outputs.file('build/out.txt')
        outputs.cacheIf { true }
        doLast { file('build/out.txt').text = file('in.txt').text.toUpperCase() }
      }
      """, to: "build.gradle")
    try workplace.write("hello\n", to: "in.txt")
    for isHit in [false, true] {
      try workplace.remove("build", ".gradle")
      let log = try workplace.run(
        "gradle", "--no-daemon", "--build-cache", "--console=plain", "-g",
        workplace.folder.appending(path: "home").path,
        "shout")
      #expect(try String(contentsOf: workplace.folder.appending(path: "build/out.txt"), encoding: .utf8) == "HELLO\n")
      #expect(log.contains(":shout FROM-CACHE") == isHit, "\(log)")
    }
    let keys = try server.store().records(prefix: "gradle/").compactMap(\.key?.string)
    #expect(keys.count == 1)
    #expect(keys.allSatisfy { $0.wholeMatch(of: /gradle\/[0-9a-f]{32}/) != nil })
  }
}
