#if canImport(Darwin)
  internal import Darwin
#elseif canImport(Glibc)
  internal import Glibc
#elseif canImport(Musl)
  internal import Musl
#elseif canImport(Android)
  internal import Android
#endif

/// The content of a file in pages, without pages of zeros so that files may be large and sparse.
package struct FileImage: Hashable, Sendable {
  static let pageByteCount = 4096
  private static let zeros = [UInt8](repeating: 0, count: pageByteCount)

  private(set) var byteCount = 0
  /// The pages by number. The bytes after the end of the file are zeros.
  private var pages: [Int: [UInt8]] = [:]

  /// - Parameter other: The image with which identical pages are shared.
  init(of descriptor: CInt, byteCount: Int, sharingWith other: FileImage?) {
    self.byteCount = byteCount
    var offset = 0
    while offset < byteCount {
      // Holes have no pages. If the file system does not report holes, all pages are read.
      let start = Int(lseek(descriptor, off_t(offset), Self.seekData))
      if start < 0, errno == ENXIO { return }
      let hole = start < 0 ? -1 : Int(lseek(descriptor, off_t(start), Self.seekHole))
      let end = hole < 0 ? byteCount : min(hole, byteCount)
      for number in max(start, offset) / Self.pageByteCount..<(end + Self.pageByteCount - 1) / Self.pageByteCount {
        read(number, of: descriptor, sharingWith: other)
      }
      offset = max(end, offset + 1)
    }
  }

  // The C library declares these constants only with certain feature test macros.
  #if canImport(Darwin)
    private static let (seekData, seekHole): (CInt, CInt) = (4, 3)
  #else
    private static let (seekData, seekHole): (CInt, CInt) = (3, 4)
  #endif

  init() {}

  private mutating func read(_ number: Int, of descriptor: CInt, sharingWith other: FileImage?) {
    let page = [UInt8](unsafeUninitializedCapacity: Self.pageByteCount) { buffer, done in
      let count = max(pread(descriptor, buffer.baseAddress, buffer.count, off_t(number * buffer.count)), 0)
      UnsafeMutableRawBufferPointer(rebasing: UnsafeMutableRawBufferPointer(buffer)[count...])
        .initializeMemory(as: UInt8.self, repeating: 0)
      done = buffer.count
    }
    let known = other?.page(number) ?? Self.zeros
    set(number, Self.areSame(page[...], known[...]) ? known : page)
  }

  /// The numbers of the pages that are not all zeros.
  var pageNumbers: Set<Int> { Set(pages.keys) }

  func page(_ number: Int) -> [UInt8] { pages[number] ?? Self.zeros }

  private mutating func set(_ number: Int, _ page: [UInt8]) {
    pages[number] = Self.areSame(page[...], Self.zeros[...]) ? nil : page
  }

  /// - Parameter range: A range within the file.
  func bytes(in range: Range<Int>) -> [UInt8] {
    guard !range.isEmpty else { return [] }
    var bytes: [UInt8] = []
    bytes.reserveCapacity(range.count)
    for number in range.lowerBound / Self.pageByteCount...(range.upperBound - 1) / Self.pageByteCount {
      let start = number * Self.pageByteCount
      bytes += page(number)[max(range.lowerBound - start, 0)..<min(range.upperBound - start, Self.pageByteCount)]
    }
    return bytes
  }

  func isZero(in range: Range<Int>) -> Bool {
    pages.keys.allSatisfy { number in
      let start = number * Self.pageByteCount
      let part = range.clamped(to: start..<start + Self.pageByteCount)
      return part.isEmpty
        || Self.areSame(page(number)[(part.lowerBound - start)..<(part.upperBound - start)], Self.zeros[..<part.count])
    }
  }

  /// Writes bytes at an offset, and extends the file if necessary.
  mutating func replace(at offset: Int, with bytes: ArraySlice<UInt8>) {
    var (offset, rest) = (offset, bytes)
    byteCount = max(byteCount, offset + rest.count)
    while !rest.isEmpty {
      let start = offset % Self.pageByteCount
      let part = rest.prefix(Self.pageByteCount - start)
      var page = page(offset / Self.pageByteCount)
      page.replaceSubrange(start..<start + part.count, with: part)
      set(offset / Self.pageByteCount, page)
      (offset, rest) = (offset + part.count, rest.dropFirst(part.count))
    }
  }

  mutating func extend(to newCount: Int) { byteCount = max(byteCount, newCount) }

  mutating func cut(to newCount: Int) {
    guard newCount < byteCount else { return }
    byteCount = newCount
    let last = newCount / Self.pageByteCount
    pages = pages.filter { $0.key <= last }
    if let page = pages[last] {
      let kept = newCount % Self.pageByteCount
      set(last, Array(page[..<kept]) + Self.zeros[kept...])
    }
  }

  /// Returns whether two slices of the same length are equal. Uses `memcmp`, because a loop over the bytes would
  /// dominate the run time of an unoptimized build.
  static func areSame(_ first: ArraySlice<UInt8>, _ second: ArraySlice<UInt8>) -> Bool {
    first.withUnsafeBytes { first in
      second.withUnsafeBytes { second in
        first.baseAddress == second.baseAddress || memcmp(first.baseAddress!, second.baseAddress!, first.count) == 0
      }
    }
  }

  /// Hashes whole pages, because hashing single elements would dominate the run time.
  package func hash(into hasher: inout Hasher) {
    hasher.combine(byteCount)
    for number in pages.keys.sorted() {
      hasher.combine(number)
      page(number).withUnsafeBytes { hasher.combine(bytes: $0) }
    }
  }

  /// - Returns: `false` if a call failed. The error is in `errno`.
  func write(to descriptor: CInt) -> Bool {
    guard ftruncate(descriptor, off_t(byteCount)) == 0 else { return false }
    return pages.allSatisfy { number, page in
      let offset = number * Self.pageByteCount
      let count = min(page.count, byteCount - offset)
      return page.withUnsafeBytes { pwrite(descriptor, $0.baseAddress, count, off_t(offset)) } == count
    }
  }
}
