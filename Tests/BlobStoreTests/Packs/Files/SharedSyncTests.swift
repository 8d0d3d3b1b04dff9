import Posix
import SystemPackage
import Testing

@testable import BlobStore

/// Threads that sync one file together, one step at a time.
@Suite struct SharedSyncTests {
  private final class Syncs {
    let sync = SharedSync()
    var callCount = 0

    /// - Parameters:
    ///   - errno: The error with which the call fails, if it is made.
    ///   - meanwhile: A closure with the concurrent operations of other threads.
    func run(
      since moment: SharedSync.Moment? = nil, failing errno: Errno? = nil, _ meanwhile: () -> Void = {}
    ) throws(FileError) {
      try sync.run(since: moment) { () throws(FileError) in
        callCount += 1
        meanwhile()
        if let errno { throw FileError(.sync, Location("file"), errno) }
      }
    }
  }

  @Test func eachThatComesAloneCallsForItself() throws {
    let syncs = Syncs()
    for _ in 0..<3 { try syncs.run() }
    #expect(syncs.callCount == 3)
    #expect(throws: FileError.self) { try syncs.run(failing: .ioError) }
    // A failure does not affect later calls.
    try syncs.run()
    #expect(syncs.callCount == 5)
  }

  /// Two threads have written before a call begins, and one of them makes the call.
  @Test func whoHasWrittenBeforeACallNeedsNoneOfItsOwn() throws {
    let syncs = Syncs()
    let other = syncs.sync.moment()
    try syncs.run()
    try syncs.run(since: other)
    #expect(syncs.callCount == 1)
  }

  /// The system reports an error only once, so the thread that did not make the call must receive it, too.
  @Test func whoHasWrittenBeforeACallFailsWithIt() throws {
    let syncs = Syncs()
    let other = syncs.sync.moment()
    #expect(throws: FileError.self) { try syncs.run(failing: .ioError) }
    let error = #expect(throws: FileError.self) { try syncs.run(since: other) }
    #expect(error?.errno == .ioError && syncs.callCount == 1)
    // A later successful call does not replace the failed one.
    try syncs.run()
    #expect(throws: FileError.self) { try syncs.run(since: other) }
    #expect(syncs.callCount == 2)
  }

  /// A thread that wrote during a call makes another call, and fails if the first one reported an error.
  @Test(arguments: [nil, Errno.ioError]) func aCallThatWasUnderWayIsNotEnough(errno: Errno?) throws {
    let syncs = Syncs()
    var other: SharedSync.Moment?
    try? syncs.run(failing: errno) { other = syncs.sync.moment() }
    let moment = try #require(other)
    if errno == nil {
      try syncs.run(since: moment)
    } else {
      #expect(throws: FileError.self) { try syncs.run(since: moment) }
    }
    #expect(syncs.callCount == 2)
  }
}
