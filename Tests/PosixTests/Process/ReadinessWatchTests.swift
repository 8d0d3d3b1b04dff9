import Posix
import SystemPackage
import TestSupport
import Testing

/// One thread waits for bytes on behalf of many tasks.
@Suite(.timeLimit(.minutes(30))) struct ReadinessWatchTests {
  private let plan = FaultPlan()

  private func waiting(_ count: Int, _ watch: ReadinessWatch) async throws {
    while watch.waiterCount != count { try await Task.sleep(for: .milliseconds(1)) }
  }

  @Test func whoWaitsIsToldOfBytesAndOfTheEnd() async throws {
    let watch = ReadinessWatch()
    // The second round needs a new thread.
    for _ in 0..<2 {
      let pipes = try (0..<20).map { _ in try FileDescriptor.pipe() }
      let waits = pipes.map { pipe in Task { try await watch.wait(for: pipe.readEnd) } }
      try await waiting(20, watch)
      try pipes[3].writeEnd.writeAll([1])
      try await waits[3].value
      try await waiting(19, watch)
      for (number, pipe) in pipes.enumerated() where number != 3 {
        // The end of a pipe is reported too.
        if number.isMultiple(of: 2) { try pipe.writeEnd.writeAll([1]) } else { try pipe.writeEnd.close() }
      }
      for wait in waits { try await wait.value }
      #expect(watch.waiterCount == 0)
      for (number, pipe) in pipes.enumerated() {
        try pipe.readEnd.close()
        if number == 3 || number.isMultiple(of: 2) { try pipe.writeEnd.close() }
      }
    }
  }

  @Test func twoWaitForOne() async throws {
    let watch = ReadinessWatch()
    let (readEnd, writeEnd) = try FileDescriptor.pipe()
    let waits = (0..<2).map { _ in Task { try await watch.wait(for: readEnd) } }
    try await waiting(2, watch)
    try writeEnd.writeAll([1])
    for wait in waits { try await wait.value }
    try writeEnd.close()
    try readEnd.close()
  }

  @Test func aCancelledWaitEnds() async throws {
    let watch = ReadinessWatch()
    let (readEnd, writeEnd) = try FileDescriptor.pipe()
    let (cancelled, other) = (Task { try await watch.wait(for: readEnd) }, Task { try await watch.wait(for: readEnd) })
    try await waiting(2, watch)
    cancelled.cancel()
    await #expect(throws: CancellationError.self) { try await cancelled.value }
    #expect(watch.waiterCount == 1)
    try writeEnd.writeAll([1])
    try await other.value
    // This task is cancelled before it waits.
    let early = Task {
      while !Task.isCancelled { await Task.yield() }
      try await watch.wait(for: readEnd)
    }
    early.cancel()
    await #expect(throws: CancellationError.self) { try await early.value }
    #expect(watch.waiterCount == 0)
    try writeEnd.close()
    try readEnd.close()
  }

  @Test(arguments: [SystemCall.pipe, .poll]) func aFailureIsTold(call: SystemCall) async throws {
    let (readEnd, writeEnd) = try FileDescriptor.pipe()
    plan.arm(FaultPlan.Fault(.noMemory, call: 1, of: [call]))
    let watch = ReadinessWatch(files: plan.files())
    let error = await #expect(throws: FileError.self) { try await watch.wait(for: readEnd) }
    #expect(error?.call == call && error?.errno == .noMemory)
    #expect(watch.waiterCount == 0)
    // The cancelled wait does not affect the next one.
    try writeEnd.writeAll([1])
    try await watch.wait(for: readEnd)
    try writeEnd.close()
    try readEnd.close()
  }
}
