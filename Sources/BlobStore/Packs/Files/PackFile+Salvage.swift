internal import Posix

extension PackFile {
  /// The bytes of a chunk that could be read from a medium with bad blocks.
  struct Salvage {
    /// The number of bytes up to the end of the file, in which unreadable bytes are zeros.
    fileprivate(set) var byteCount: Int
    /// The unreadable ranges of the chunk, with the last error.
    fileprivate(set) var lost: [Range<Int>] = []
    fileprivate(set) var failure: FileError?
  }

  private static let pageByteCount = 4096

  /// Reads a chunk, or the beginning of one, page by page if it has bad blocks. Throws if no page can be read.
  ///
  /// System call: `pread(2)`, or one for each page.
  func salvage(
    into buffer: UnsafeMutableRawBufferPointer, at start: PackAddress
  ) throws(FileError) -> Salvage {
    do {
      return Salvage(byteCount: try unsafe read(into: buffer, at: start))
    } catch {
      guard error.errno == .ioError else { throw error }
      let salvage = unsafe pages(into: buffer, at: start)
      guard salvage.lost.count * Self.pageByteCount < salvage.byteCount else { throw error }
      return salvage
    }
  }

  private func pages(into buffer: UnsafeMutableRawBufferPointer, at start: PackAddress) -> Salvage {
    var salvage = Salvage(byteCount: buffer.count)
    for offset in stride(from: 0, to: buffer.count, by: Self.pageByteCount) {
      let range = offset..<min(offset + Self.pageByteCount, buffer.count)
      let page = unsafe UnsafeMutableRawBufferPointer(rebasing: buffer[range])
      do {
        let count = try unsafe read(into: page, at: PackAddress(pack: number, chunk: start.chunk, offset: offset))
        guard count == page.count else {
          salvage.byteCount = offset + count
          break
        }
      } catch {
        unsafe page.initializeMemory(as: UInt8.self, repeating: 0)
        salvage.lost.append(range)
        salvage.failure = error
      }
    }
    return salvage
  }
}

extension PackFile.Salvage {
  /// Returns an address for each cell in which a record with a lost header or name may begin.
  func unreadable(at start: PackAddress, besides found: [PackedRecord]) -> [PackAddress] {
    let cells = Set(found.map { $0.address.offset / PackLayout.cellByteCount })
    let head = PackLayout.recordHeaderByteCount + PackLayout.largestNameByteCount
    return lost.flatMap { lost in
      let first = max(0, lost.lowerBound - head) / PackLayout.cellByteCount
      let last = (lost.upperBound - 1) / PackLayout.cellByteCount
      return (first...last).filter { !cells.contains($0) }.map {
        PackAddress(pack: start.pack, chunk: start.chunk, offset: $0 * PackLayout.cellByteCount)
      }
    }
  }
}
