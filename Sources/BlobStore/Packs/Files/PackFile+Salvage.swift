internal import Posix

extension PackFile {
  /// The unit in which a chunk with bad blocks is read.
  private static let pageByteCount = 4096

  /// Reads a chunk with bad blocks page by page. A page that cannot be read becomes zeros.
  ///
  /// A record that begins in such a page is marked as dead. Others may be stored and removed under its key from now on, and it must not
  /// count again, should its page be read after another boot.
  ///
  /// System calls: `pread(2)` for each page.
  ///
  /// - Parameters:
  ///   - buffer: for a chunk.
  ///   - start: of a chunk of this pack that no living process writes to.
  /// - Returns: the bytes up to the end of the file, and how many pages of them could not be read.
  func salvage(
    into buffer: UnsafeMutableRawBufferPointer, at start: PackAddress
  ) -> (byteCount: Int, lostPageCount: Int) {
    var lostPageCount = 0
    for offset in stride(from: 0, to: PackLayout.chunkByteCount, by: Self.pageByteCount) {
      let page = unsafe UnsafeMutableRawBufferPointer(rebasing: buffer[offset..<offset + Self.pageByteCount])
      let address = PackAddress(pack: number, chunk: start.chunk, offset: offset)
      do {
        let count = try unsafe read(into: page, at: address)
        if count < page.count { return (offset + count, lostPageCount) }
      } catch {
        unsafe page.initializeMemory(as: UInt8.self, repeating: 0)
        markAllDead(from: address)
        lostPageCount += 1
      }
    }
    return (PackLayout.chunkByteCount, lostPageCount)
  }

  private func markAllDead(from page: PackAddress) {
    let bits = deadBits(ofChunk: page.chunk)
    for offset in stride(from: page.offset, to: page.offset + Self.pageByteCount, by: PackLayout.cellByteCount) {
      bits.set(PackAddress(pack: number, chunk: page.chunk, offset: offset), isDead: true)
    }
  }
}
