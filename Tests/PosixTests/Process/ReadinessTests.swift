import Posix
import SystemPackage
import TestSupport
import Testing

@Suite(.timeLimit(.minutes(30))) struct ReadinessTests {
  private let plan = FaultPlan()

  private func withPipe(_ body: (_ readEnd: FileDescriptor, _ writeEnd: FileDescriptor) throws -> Void) throws {
    let (readEnd, writeEnd) = try FileDescriptor.pipe()
    try readEnd.closeAfter { try writeEnd.closeAfter { try body(readEnd, writeEnd) } }
  }

  @Test func whoWaitsReturnsWhenThereIsSomethingToTransfer() throws {
    try withPipe { readEnd, writeEnd in
      let hasWritten = Monitor(false)
      try OwnedThread {
        hasWritten.change { $0 = true }
        #expect(throws: Never.self) { try writeEnd.writeAll([1]) }
      }
      try Readiness.toRead.wait(for: readEnd, Location("pipe"), files: Files())
      #expect(hasWritten.wait { .done($0) })
      try Readiness.toWrite.wait(for: writeEnd, Location("pipe"), files: Files())
    }
  }

  @Test func anInterruptedWaitGoesOn() throws {
    try withPipe { readEnd, writeEnd in
      try writeEnd.writeAll([1])
      plan.arm(FaultPlan.Fault(.interrupted, call: 1, of: [.poll]))
      try Readiness.toRead.wait(for: readEnd, Location("pipe"), files: plan.files())
      #expect(plan.calls.map(\.kind) == [.poll, .poll])
    }
  }

  @Test func aWaitThatFailsSaysOnWhat() throws {
    try withPipe { readEnd, _ in
      plan.arm(FaultPlan.Fault(.noMemory, call: 1, of: [.poll]))
      let error = #expect(throws: FileError.self) {
        try Readiness.toRead.wait(for: readEnd, Location("pipe"), files: plan.files())
      }
      #expect(error?.call == .poll)
      #expect(error?.errno == .noMemory)
      #expect(error?.path == "pipe")
    }
  }
}
