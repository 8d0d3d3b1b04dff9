import BlobRecord
import BlobStore
import Foundation
import Testing

/// The installed Bazel: a miss, a store, and a hit.
@Suite(
  .serialized, .timeLimit(.minutes(10)),
  .enabled(
    if: ClientPrograms.runsSlowOnes && ClientPrograms.areInstalled("bazel"),
    "there is no bazel, or BLOBCACHE_SLOW_CLIENTS is not set"))
struct BazelClientTests {
  @Test func whatWasBuiltIsNotBuiltAgain() throws {
    let workplace = try Workplace()
    let server = try ServerProcess(workplace.tokenOptions(keyPrefix: "bazel/"))
    try workplace.write(
      """
      build --remote_cache=\(server.address)bazel
      build --remote_upload_local_results=true
      build --remote_header=Authorization="Bearer \(Workplace.token)"
      """ + "\n", to: "project/.bazelrc")
    try workplace.write("", to: "project/WORKSPACE")
    try workplace.write(
      "genrule(name = \"g\", srcs = [\"in.txt\"], outs = [\"out.txt\"], cmd = \"tr a-z A-Z < $< > $@\")\n",
      to: "project/BUILD")
    try workplace.write("hello\n", to: "project/in.txt")
    for isHit in [false, true] {
      // Each build has a new output root. Its files need write permission before they can be removed.
      let log = try workplace.run(
        "bash", "-c",
        "cd project && bazel --batch --output_user_root=\"$HOME/root-\(isHit)\" build //:g 2>&1 "
          + "&& cat bazel-bin/out.txt "
          + "&& chmod -R u+w \"$HOME/root-\(isHit)\"")
      #expect(log.hasSuffix("HELLO\n"))
      #expect(log.contains("1 remote cache hit") == isHit, "\(log)")
    }
    let keys = try server.store().records(prefix: "bazel/").compactMap(\.key?.string)
    for kind in ["ac", "cas"] {
      #expect(keys.contains { $0.hasPrefix("bazel/\(kind)/") })
    }
  }
}
