import Foundation
import TestSupport
import Testing

/// Tests the volumes that other tests use.
@Suite(.serialized) struct VolumeTests {
  /// A process in a separate mount namespace keeps a copy of each mount until it ends, and keeps the volume in use.
  @Test(.canMount(.xfs), .canUnshareMounts) func anUnmountedVolumeIsInUseNowhere() throws {
    let volume = try Volume(.xfs, megabytes: 320)
    let output = Pipe()
    // The process ends only after this unmount, and late enough that a mount without waiting would be refused.
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
  /// Skips a test visibly if a process cannot create a mount namespace.
  static var canUnshareMounts: Self {
    .enabled("needs unshare(1), and the right to make a namespace of mounts") {
      guard Programs.installed("unshare") != nil else { return false }
      return (try? ChildProcess.runSuccessfully(["unshare", "--mount", "true"])) != nil
    }
  }
}
