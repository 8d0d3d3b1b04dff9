/// Memory that the threads of a worker misuse, to be reported by a sanitizer. Unchecked because the data race is
/// intended.
final class UnguardedMemory: @unchecked Sendable {
  private var counter = 0
  private let bytes = UnsafeMutableBufferPointer<UInt8>.allocate(capacity: 64)

  init() { bytes.initialize(repeating: 1) }

  deinit { bytes.deallocate() }

  func count() { counter += 1 }

  func readBeyondTheEnd() {
    guard let start = bytes.baseAddress else { return }
    counter += Int(start[bytes.count])
  }
}
