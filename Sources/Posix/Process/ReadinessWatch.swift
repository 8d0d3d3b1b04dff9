internal import CPosix
internal import Locks
package import SystemPackage

#if canImport(Darwin)
  internal import Darwin
#elseif canImport(Glibc)
  internal import Glibc
#elseif canImport(Musl)
  internal import Musl
#elseif canImport(Android)
  internal import Android
#endif

/// Lets any number of tasks wait for bytes of descriptors with one thread, which runs while tasks wait.
package final class ReadinessWatch: Sendable {
  fileprivate enum Waiter {
    case announced
    case waiting(CInt, CheckedContinuation<Void, any Error>)
    case cancelled
  }

  fileprivate struct State {
    var waiters: [Int: Waiter] = [:]
    var nextNumber = 0
    /// The end of the pipe that wakes the thread, or `nil` if no thread runs.
    var wakeEnd: CInt?
  }

  private static let location = Location("pipe")
  private let files: Files
  private let state = Lock(State())

  package init(files: Files = Files()) { self.files = files }

  package var waiterCount: Int { state.withLock { $0.waiters.count } }

  /// Returns when a read would not block, or would fail.
  ///
  /// The descriptor must stay open until the method returns.
  ///
  /// - Throws: `CancellationError`, or `FileError` or `Errno` if the system lacks threads, pipes or memory.
  package func wait(for descriptor: FileDescriptor) async throws {
    let number = state.withLock { state in
      state.nextNumber += 1
      state.waiters[state.nextNumber] = .announced
      return state.nextNumber
    }
    try await withTaskCancellationHandler {
      try await withCheckedThrowingContinuation { continuation in
        add(number, descriptor, continuation)
      }
    } onCancel: {
      cancel(number)
    }
  }

  private func add(_ number: Int, _ descriptor: FileDescriptor, _ continuation: CheckedContinuation<Void, any Error>) {
    let isCancelled = state.withLock { state in
      if case .cancelled? = state.waiters[number] {
        state.waiters[number] = nil
        return true
      }
      state.waiters[number] = .waiting(descriptor.rawValue, continuation)
      return false
    }
    guard !isCancelled else { return continuation.resume(throwing: CancellationError()) }
    do {
      try wakeThread()
    } catch {
      if let continuation = take(number) { continuation.resume(throwing: error) }
    }
  }

  private func cancel(_ number: Int) {
    let continuation = state.withLock { state -> CheckedContinuation<Void, any Error>? in
      switch state.waiters[number] {
      case .announced?: state.waiters[number] = .cancelled
      case .waiting(_, let continuation)?:
        state.waiters[number] = nil
        // The descriptor may be closed from now on.
        Self.wake(state.wakeEnd)
        return continuation
      case .cancelled?, nil: break
      }
      return nil
    }
    continuation?.resume(throwing: CancellationError())
  }

  private func take(_ number: Int) -> CheckedContinuation<Void, any Error>? {
    state.withLock { state in
      guard case .waiting(_, let continuation)? = state.waiters[number] else { return nil }
      state.waiters[number] = nil
      return continuation
    }
  }

  private static func wake(_ end: CInt?) {
    var byte: UInt8 = 0
    // Fails only if the pipe is full of earlier bytes, which wake the thread as well.
    if let end { _ = unsafe write(end, &byte, 1) }
  }
}

// MARK: - The thread

extension ReadinessWatch {
  /// Wakes the thread to check the waiters again, and starts it if it is not running.
  private func wakeThread() throws {
    let readEnd = try state.withLock { state -> CInt? in
      if let end = state.wakeEnd {
        Self.wake(end)
        return nil
      }
      var ends: [CInt] = [-1, -1]
      try files.perform(.pipe, Self.location) { unsafe blob_pipe(&ends) }
      state.wakeEnd = ends[1]
      return ends[0]
    }
    guard let readEnd else { return }
    do {
      try OwnedThread { [self] in work(readEnd) }
    } catch {
      end(readEnd, throwing: error)
    }
  }

  private func work(_ readEnd: CInt) {
    while var polled = polled(besides: readEnd) {
      do throws(FileError) {
        try files.perform(.poll, Self.location) { unsafe poll(&polled, nfds_t(polled.count), -1) }
      } catch {
        return end(readEnd, throwing: error)
      }
      if polled[0].revents != 0 { drain(readEnd) }
      resume(Set(polled.dropFirst().filter { $0.revents != 0 }.map(\.fd)))
    }
  }

  /// Returns the descriptors to poll, or ends the thread and returns `nil` if no task waits.
  private func polled(besides readEnd: CInt) -> [pollfd]? {
    state.withLock { state -> [pollfd]? in
      let waiting = state.waiters.values.compactMap { waiter -> CInt? in
        if case .waiting(let descriptor, _) = waiter { descriptor } else { nil }
      }
      guard !waiting.isEmpty else {
        close(&state, readEnd)
        return nil
      }
      return ([readEnd] + waiting).map { pollfd(fd: $0, events: Int16(POLLIN), revents: 0) }
    }
  }

  private func close(_ state: inout State, _ readEnd: CInt) {
    // The pipe only wakes the thread, so its bytes can be lost.
    try? files.close(readEnd, Self.location)
    if let end = state.wakeEnd { try? files.close(end, Self.location) }
    state.wakeEnd = nil
  }

  private func drain(_ readEnd: CInt) {
    var bytes: (UInt64, UInt64) = (0, 0)
    // If more than 16 bytes are pending, the rest wakes the thread once more.
    _ = unsafe read(readEnd, &bytes, 16)
  }

  private func resume(_ ready: Set<CInt>) {
    let continuations = state.withLock { $0.take { ready.contains($0) } }
    for continuation in continuations { continuation.resume() }
  }

  private func end(_ readEnd: CInt, throwing error: any Error) {
    let continuations = state.withLock { state in
      close(&state, readEnd)
      return state.take { _ in true }
    }
    for continuation in continuations { continuation.resume(throwing: error) }
  }
}

extension ReadinessWatch.State {
  fileprivate mutating func take(_ isMeant: (CInt) -> Bool) -> [CheckedContinuation<Void, any Error>] {
    var continuations: [CheckedContinuation<Void, any Error>] = []
    for (number, waiter) in waiters {
      guard case .waiting(let descriptor, let continuation) = waiter, isMeant(descriptor) else { continue }
      waiters[number] = nil
      continuations.append(continuation)
    }
    return continuations
  }
}
