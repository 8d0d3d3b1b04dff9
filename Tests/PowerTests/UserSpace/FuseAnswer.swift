#if os(Linux)
  import Foundation

  /// The body of an answer to the kernel, number by number as in linux/fuse.h.
  struct FuseAnswer: Sendable {
    private(set) var body: [UInt8] = []

    mutating func append<Number: FixedWidthInteger>(_ number: Number) {
      withUnsafeBytes(of: number) { body.append(contentsOf: $0) }
    }

    mutating func append(_ bytes: some Sequence<UInt8>) { body.append(contentsOf: bytes) }

    /// The answer to `begin`: version 7.31 with a single feature.
    static var version: Self {
      var answer = Self()
      for number: UInt32 in [7, 31, 128 << 10, parallelLookups] { answer.append(number) }
      for number: UInt16 in [16, 12] { answer.append(number) }
      for number: UInt32 in [UInt32(largestWrite), 1] { answer.append(number) }
      for number: UInt16 in [0, 0] { answer.append(number) }
      for _ in 0..<8 { answer.append(0 as UInt32) }
      return answer
    }

    /// Lookups that wait do not block others in their directory.
    private static let parallelLookups: UInt32 = 1 << 18

    static let largestWrite = 128 << 10

    /// - Parameter validSeconds: The time for which the kernel may cache the answer.
    static func entry(_ node: UInt64, _ status: stat, validSeconds: UInt64) -> Self {
      var answer = Self()
      for number: UInt64 in [node, 0, validSeconds, validSeconds] { answer.append(number) }
      for number: UInt32 in [0, 0] { answer.append(number) }
      answer.append(status, of: node)
      return answer
    }

    static func status(_ node: UInt64, _ status: stat, validSeconds: UInt64) -> Self {
      var answer = Self()
      answer.append(validSeconds)
      for number: UInt32 in [0, 0] { answer.append(number) }
      answer.append(status, of: node)
      return answer
    }

    private mutating func append(_ status: stat, of node: UInt64) {
      append(node)
      append(UInt64(status.st_size))
      append(UInt64(status.st_blocks))
      for time in [status.st_atim, status.st_mtim, status.st_ctim] { append(UInt64(time.tv_sec)) }
      for time in [status.st_atim, status.st_mtim, status.st_ctim] { append(UInt32(time.tv_nsec)) }
      for number in [status.st_mode, UInt32(status.st_nlink), status.st_uid, status.st_gid, 0, 4096, 0] {
        append(number)
      }
    }

    /// - Parameter keepsPages: A Boolean value that indicates whether the kernel keeps the file's cached pages.
    static func file(_ file: Int32, keepsPages: Bool) -> Self {
      var answer = Self()
      answer.append(UInt64(file))
      for number: UInt32 in [keepsPages ? 2 : 0, 0] { answer.append(number) }
      return answer
    }

    static func written(_ byteCount: Int) -> Self {
      var answer = Self()
      for number: UInt32 in [UInt32(byteCount), 0] { answer.append(number) }
      return answer
    }

    static var volumeStatus: Self {
      var answer = Self()
      for number: UInt64 in [1 << 20, 1 << 19, 1 << 19, 1 << 20, 1 << 19] { answer.append(number) }
      for number: UInt32 in [4096, 255, 4096, 0, 0, 0, 0, 0, 0, 0] { answer.append(number) }
      return answer
    }

    /// Returns as many entries of a directory as fit.
    static func names(_ names: [String], from first: Int, byteCount: Int) -> Self {
      var answer = Self()
      for (index, name) in names.enumerated().dropFirst(first) {
        let padded = (24 + name.utf8.count + 7) & ~7
        guard answer.body.count + padded <= byteCount else { break }
        for number: UInt64 in [UInt64.max, UInt64(index + 1)] { answer.append(number) }
        // The type is unknown, so a reader requests the status.
        for number: UInt32 in [UInt32(name.utf8.count), 0] { answer.append(number) }
        answer.append(name.utf8)
        answer.append(repeatElement(0, count: padded - 24 - name.utf8.count))
      }
      return answer
    }
  }
#endif
