internal import Posix

extension PackFile {
  /// What a medium with bad blocks gave of a chunk.
  struct Salvage {
    /// The bytes up to the end of the file. What could not be read is zeros.
    fileprivate(set) var byteCount: Int
    /// Where nothing could be read, by the offset in the chunk, and why.
    fileprivate(set) var lost: [Range<Int>] = []
    fileprivate(set) var failure: FileError?
  }

  /// The unit in which a chunk with bad blocks is read.
  private static let pageByteCount = 4096

  /// Reads a chunk; page by page, if it has bad blocks.
  ///
  /// System call: `pread(2)`, or one for each page.
  ///
  /// - Parameters:
  ///   - buffer: for the chunk, or for its begin.
  ///   - start: of a chunk of this pack.
  /// - Throws: where no page of it can be read.
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
  /// The places at which records may begin that could not be read: in lost bytes, or so that their names reach into them.
  ///
  /// - Parameters:
  ///   - start: of the chunk.
  ///   - found: the records that could be read.
  /// - Returns: one for each cell.
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
