#if os(Linux)
  import Foundation

  /// A request of the kernel to a FUSE server: linux/fuse.h.
  struct FuseRequest: Sendable {
    enum Kind: UInt32, Sendable {
      case lookup = 1
      case forget = 2
      case status = 3
      case open = 14
      case read = 15
      case write = 16
      case volumeStatus = 17
      case release = 18
      case begin = 26
      case openDirectory = 27
      case readDirectory = 28
      case releaseDirectory = 29
      case access = 34
      case interrupt = 36
      case end = 38
      case forgetMany = 42

      /// A Boolean value that indicates whether the kernel waits for an answer.
      var isAnswered: Bool { self != .forget && self != .forgetMany && self != .interrupt }
    }

    /// The kind of the request, or `nil` for kinds that are not supported.
    let kind: Kind?
    let number: UInt64
    let node: UInt64
    private let body: [UInt8]

    /// - Parameter bytes: The bytes of one read of /dev/fuse.
    init?(_ bytes: UnsafeRawBufferPointer) {
      guard bytes.count >= Self.headerByteCount else { return nil }
      kind = Kind(rawValue: bytes.loadUnaligned(fromByteOffset: 4, as: UInt32.self))
      number = bytes.loadUnaligned(fromByteOffset: 8, as: UInt64.self)
      node = bytes.loadUnaligned(fromByteOffset: 16, as: UInt64.self)
      body = Array(bytes.dropFirst(Self.headerByteCount))
    }

    private static let headerByteCount = 40

    /// The name of a lookup.
    var name: String { String(decoding: body.prefix { $0 != 0 }, as: UTF8.self) }

    /// The flags of an open.
    var flags: Int32 { number(at: 0) }

    /// The open file of a read, a write or a release.
    var file: Int32 { Int32(truncatingIfNeeded: number(at: 0) as UInt64) }
    var offset: Int { Int(number(at: 8) as UInt64) }
    var byteCount: Int { Int(number(at: 16) as UInt32) }

    /// The bytes to write.
    var payload: ArraySlice<UInt8> { body.dropFirst(40).prefix(byteCount) }

    private func number<Number: FixedWidthInteger>(at offset: Int) -> Number {
      body.withUnsafeBytes { bytes in
        guard bytes.count >= offset + MemoryLayout<Number>.size else { return 0 }
        return bytes.loadUnaligned(fromByteOffset: offset, as: Number.self)
      }
    }
  }
#endif
