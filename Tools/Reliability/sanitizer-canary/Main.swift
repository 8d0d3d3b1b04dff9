// Does what a sanitizer must report, for Tools/sanitize to see that it would: the first argument says which.

internal import Foundation
internal import Locks

/// Shared by threads without anything that keeps them apart. Unchecked: that is the point.
final class Unguarded: @unchecked Sendable {
  var value = 0
}

/// An `Unguarded` behind a lock.
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
  // What only looks like a race: a report of it would be a false one.
  let guarded = Guarded()
  inThreads { for _ in 0..<20_000 { guarded.box.withLock { $0.value += 1 } } }
  print(guarded.box.withLock { $0.value })
case "overflow":
  let bytes = UnsafeMutablePointer<UInt8>.allocate(capacity: 64)
  bytes.initialize(repeating: 1, count: 64)
  // One byte further than there is; not known when this is compiled.
  let end = CommandLine.arguments.count + 62
  print(bytes[end])
  bytes.deallocate()
default:
  print("usage: sanitizer-canary race|lock|overflow")
  exit(64)
}
