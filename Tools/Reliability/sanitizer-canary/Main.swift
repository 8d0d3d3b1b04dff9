// Contains faults that a sanitizer must report, to verify Tools/sanitize. The first argument selects the fault.

internal import Foundation
internal import Locks

/// A value that threads share without synchronization. Unchecked because the data race is intended.
final class Unguarded: @unchecked Sendable {
  var value = 0
}

/// An `Unguarded` protected by a lock.
final class Guarded: Sendable {
  let box = Lock(Unguarded())
}

func inThreads(_ body: @escaping @Sendable () -> Void) {
  let group = DispatchGroup()
  for _ in 0..<4 {
    group.enter()
    Thread {
      body()
      group.leave()
    }.start()
  }
  group.wait()
}

switch CommandLine.arguments.dropFirst().first {
case "race":
  let box = Unguarded()
  inThreads { for _ in 0..<10_000 { box.value += 1 } }
  print(box.value)
case "lock":
  // Not a race. A report would be a false positive.
  let guarded = Guarded()
  inThreads { for _ in 0..<20_000 { guarded.box.withLock { $0.value += 1 } } }
  print(guarded.box.withLock { $0.value })
case "overflow":
  let bytes = UnsafeMutablePointer<UInt8>.allocate(capacity: 64)
  bytes.initialize(repeating: 1, count: 64)
  // One byte after the end. The compiler cannot know the index.
  let end = CommandLine.arguments.count + 62
  print(bytes[end])
  bytes.deallocate()
default:
  print("usage: sanitizer-canary race|lock|overflow")
  exit(64)
}
