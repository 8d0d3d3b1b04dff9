import Foundation
import TestSupport
import Testing

/// The harness itself.
@Suite(.serialized) struct VolumeTests {
  /// A process in a mount namespace of its own keeps a copy of each mount until it ends, and the file system in use.
  @Test(.canMount(.xfs), .canUnshareMounts) func anUnmountedVolumeIsInUseNowhere() throws {
    let volume = try Volume(.xfs, megabytes: 320)
    let output = Pipe()
    // It ends only after the mount is gone here, and late enough for a mount that does not wait to be refused.
    let keeper = try ChildProcess(
      [
        "unshare", "--mount", "sh", "-c",
        "echo; while grep -q \(volume.mountPoint) /proc/\(getpid())/mountinfo; do sleep 0.01; done; sleep 0.3",
      ], output: output)
    try output.fileHandleForWriting.close()
    try #require(!output.fileHandleForReading.availableData.isEmpty)
    try volume.unmount()
    try volume.mount()
    try volume.unmount()
    #expect(keeper.wait() == 0)
  }
}

extension Trait where Self == ConditionTrait {
  /// Skips, visibly, where a process may have no mounts of its own.
  static var canUnshareMounts: Self {
    .enabled("needs unshare(1), and the right to make a namespace of mounts") {
      guard Programs.installed("unshare") != nil else { return false }
      return (try? ChildProcess.runSuccessfully(["unshare", "--mount", "true"])) != nil
    }
  }
}
