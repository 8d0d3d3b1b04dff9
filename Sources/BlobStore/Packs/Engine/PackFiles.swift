internal import BlobRecord
internal import Locks
internal import Logging
internal import Posix
internal import SystemPackage

/// The packs of a directory that this process has opened, and the chunks that it fills.
final class PackFiles: Sendable {
  let directory: PackDirectory
  /// The number of bytes up to which a chunk is filled.
  let chunkByteCount: Int
  private let isMapped: Bool
  private let names: TemporaryNames
  let logger: Logger
  private let opened = Lock<[PackFile?]>([])
  /// The chunk of each class that receives the next record.
  private let filled = Lock([FilledChunk?](repeating: nil, count: ChunkClass.count))

  private struct FilledChunk {
    let pack: PackFile
    let number: Int
    let owner: UInt64

    var entry: ChunkEntry { pack.entry(ofChunk: number) }
  }

  init(_ directory: PackDirectory, chunkByteCount: Int, isMapped: Bool, names: TemporaryNames, _ logger: Logger) {
    self.isMapped = isMapped
    self.directory = directory
    self.chunkByteCount = chunkByteCount
    self.names = names
    self.logger = logger
  }

  /// Returns the pack with a number, or `nil` if it does not exist. Makes system calls only to open the pack.
  func pack(_ number: Int) throws -> PackFile? {
    if let pack = openedPack(number) { return pack }
    return try PackFile.open(number, in: directory, isMapped: isMapped).map(remember)
  }

  func openedPack(_ number: Int) -> PackFile? {
    opened.withLock { $0.indices.contains(number) ? $0[number] : nil }
  }

  private func remember(_ pack: PackFile) -> PackFile {
    opened.withLock { packs in
      while packs.count <= pack.number { packs.append(nil) }
      // Two threads may have opened it. All threads of a process have to use one mapping of the chunk table.
      if let first = packs[pack.number] { return first }
      packs[pack.number] = pack
      return pack
    }
  }

  func all() throws -> [PackFile] {
    var packs: [PackFile] = []
    for number in 0..<PackLayout.packCount {
      // Numbers are assigned consecutively. A gap is possible only if others removed a pack, and ends the search.
      guard let pack = try usable(number) else { break }
      if let pack = pack.pack { packs.append(pack) }
    }
    return packs
  }

  /// An existing pack, which is `nil` if it cannot be used.
  private struct Usable {
    let pack: PackFile?
  }

  private func usable(_ number: Int) throws -> Usable? {
    do {
      return try pack(number).map { Usable(pack: $0) }
    } catch let error as BlobStoreError where error.code == .damaged || error.code == .foreignFile {
      logger.warning("\(error)")
      return Usable(pack: nil)
    }
  }

  /// Syncs all packs, because a record that is marked as dead in one may have an older version in another.
  func synchronize() throws {
    for pack in try all() { try pack.synchronize() }
  }
}

// MARK: - Removal

extension PackFiles {
  /// Unlinks all packs, their indexes and their checkpoint. The first pack is unlinked last, because it shows that
  /// packs exist if the process is killed in between.
  func removeAll() throws {
    for name in [PackCheckpoint.name, PackIndex.nextName, PackIndex.name] { try directory.unlinkOwn(name) }
    for pack in try all().reversed() { try directory.unlinkOwn(PackFile.name(pack.number)) }
  }
}

// MARK: - Room

/// Space for one record, in a chunk that is not collected during the lifetime of this value.
struct PackRoom: ~Copyable {
  let pack: PackFile
  let address: PackAddress
  let byteCount: Int
  let chunkClass: ChunkClass

  deinit { pack.entry(ofChunk: address.chunk).endFlight() }
}

extension PackFiles {
  /// Reserves space for a record, or returns `nil` if all packs are full.
  ///
  /// System calls: none, except for the first record of a chunk: `fallocate(2)`, and the calls that create a pack.
  ///
  /// - Parameter spare: An empty chunk of the collection, which is used if the volume has no space for another.
  /// - Throws: A `FileError` if the volume has no space for a chunk.
  func room(
    for byteCount: Int, of header: RecordHeader, in chunkClass: ChunkClass, owner: UInt64, sequence: UInt64,
    spare: Spare? = nil
  ) throws -> PackRoom? {
    let place = try filled.withLock { chunks throws -> (PackFile, PackAddress)? in
      let index = Int(chunkClass.rawValue)
      while true {
        if let chunk = chunks[index], chunk.owner == owner {
          if let offset = chunk.entry.reserve(byteCount, owner: owner, within: chunkByteCount) {
            return (chunk.pack, PackAddress(pack: chunk.pack.number, chunk: chunk.number, offset: offset))
          }
          // The chunk is full, or a collection took it because it considered this process dead.
          _ = chunk.entry.seal(owner: owner)
        }
        chunks[index] = nil
        do {
          guard let next = try takeChunk(for: chunkClass, owner: owner, sequence: sequence) else { return nil }
          chunks[index] = next
        } catch let error as FileError where error.isLackOfRoom {
          guard let spare, spare.entry.takeSpare(for: chunkClass, owner: owner, sequence: sequence) else { throw error }
          chunks[index] = FilledChunk(pack: spare.pack, number: spare.chunk, owner: owner)
        }
      }
    }
    guard let (pack, address) = place else { return nil }
    pack.entry(ofChunk: address.chunk).noteLife(ttl: header.ttl, update: header.updateTime)
    return PackRoom(pack: pack, address: address, byteCount: byteCount, chunkClass: chunkClass)
  }

  private func takeChunk(for chunkClass: ChunkClass, owner: UInt64, sequence: UInt64) throws -> FilledChunk? {
    for number in 0..<PackLayout.packCount {
      guard let pack = try usable(number) ?? made(number) else { continue }
      guard let pack = pack.pack else { continue }
      // Chunks with blocks are used first, because they require no space of the volume.
      while let chunk = pack.firstFreeChunk(hasBlocks: true) {
        guard pack.entry(ofChunk: chunk).take(for: chunkClass, owner: owner, sequence: sequence) else { continue }
        return FilledChunk(pack: pack, number: chunk, owner: owner)
      }
      while let chunk = pack.firstFreeChunk() {
        let entry = pack.entry(ofChunk: chunk)
        guard entry.take(for: chunkClass, owner: owner, sequence: sequence) else { continue }
        do throws(FileError) {
          try pack.allocate(chunk: chunk)
        } catch {
          if entry.seal(owner: owner), entry.beginCollection() { _ = entry.free() }
          throw error
        }
        return FilledChunk(pack: pack, number: chunk, owner: owner)
      }
    }
    return nil
  }

  struct Spare {
    let pack: PackFile
    let chunk: Int

    fileprivate var entry: ChunkEntry { pack.entry(ofChunk: chunk) }
  }

  /// Reserves a free chunk with its blocks for the next collection, and throws if the volume has no space for one.
  func keepSpare() throws {
    let packs = try all()
    for hasBlocks in [true, false] {
      for pack in packs {
        while let chunk = pack.firstFreeChunk(hasBlocks: hasBlocks) {
          let entry = pack.entry(ofChunk: chunk)
          guard entry.compareExchange(.free, ChunkState(.collecting, owner: 0)) else { continue }
          guard !hasBlocks else { return }
          do throws(FileError) {
            try pack.allocate(chunk: chunk)
          } catch {
            _ = entry.free()
            throw error
          }
          return
        }
      }
    }
  }

  private func made(_ number: Int) throws -> Usable? {
    _ = try PackFile.make(number, in: directory, names: names)
    return try usable(number)
  }

  /// Stops using the current chunk of a class, because after a failed sync later writes may not reach the medium.
  func seal(_ chunkClass: ChunkClass) {
    filled.withLock { chunks in
      guard let chunk = chunks[Int(chunkClass.rawValue)] else { return }
      _ = chunk.entry.seal(owner: chunk.owner)
      chunks[Int(chunkClass.rawValue)] = nil
    }
  }
}

extension ChunkClass {
  /// Creates the class of a record, so that records which expire at about the same time share a chunk.
  ///
  /// - Parameters:
  ///   - ttl: The time to live in seconds, or 0 for records whose lifetime depends on their last use.
  ///   - isDurable: A Boolean value that indicates whether the record is locked, or must be on the medium.
  init(ttl: UInt64, isDurable: Bool) {
    guard !isDurable else {
      self = .durable
      return
    }
    let bounds: [UInt64] = [0, 300, 3600, 6 * 3600, 24 * 3600, 7 * 24 * 3600]
    self.init(rawValue: UInt32(bounds.firstIndex { ttl <= $0 } ?? bounds.count))
  }
}
