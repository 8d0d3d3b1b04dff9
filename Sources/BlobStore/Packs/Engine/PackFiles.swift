internal import BlobRecord
internal import Locks
internal import Logging
internal import Posix
internal import SystemPackage

/// The packs of a directory that this process has open, and the chunks that it fills.
final class PackFiles: Sendable {
  let directory: PackDirectory
  /// Bytes of a chunk that are filled.
  let chunkByteCount: Int
  private let isMapped: Bool
  private let names: TemporaryNames
  let logger: Logger
  /// By number; nil of those that are not open.
  private let opened = Lock<[PackFile?]>([])
  /// The chunk that takes the next record of each class.
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

  /// A pack by its number.
  ///
  /// System calls: none, once it is open.
  ///
  /// - Returns: nil if no pack has the number.
  /// - Throws: as `PackFile.open`.
  func pack(_ number: Int) throws -> PackFile? {
    if let pack = openedPack(number) { return pack }
    return try PackFile.open(number, in: directory, isMapped: isMapped).map(remember)
  }

  /// A pack that is open already.
  func openedPack(_ number: Int) -> PackFile? {
    opened.withLock { $0.indices.contains(number) ? $0[number] : nil }
  }

  private func remember(_ pack: PackFile) -> PackFile {
    opened.withLock { packs in
      while packs.count <= pack.number { packs.append(nil) }
      // Two threads may have opened it: the chunks of one process are counted by one mapping.
      if let first = packs[pack.number] { return first }
      packs[pack.number] = pack
      return pack
    }
  }

  /// All packs that can be used, in the order of their numbers.
  func all() throws -> [PackFile] {
    var packs: [PackFile] = []
    for number in 0..<PackLayout.packCount {
      // Numbers are given from 0 on. Behind a gap, which only others can make, nothing is looked for.
      guard let pack = try usable(number) else { break }
      if let pack = pack.pack { packs.append(pack) }
    }
    return packs
  }

  /// A pack, or that one of this number cannot be used.
  private struct Usable {
    let pack: PackFile?
  }

  /// - Returns: nil if no pack has the number.
  private func usable(_ number: Int) throws -> Usable? {
    do {
      return try pack(number).map { Usable(pack: $0) }
    } catch let error as BlobStoreError where error.code == .damaged || error.code == .foreignFile {
      logger.warning("\(error)")
      return Usable(pack: nil)
    }
  }

  /// Puts all packs on the medium: what was marked as dead in one may have an older record in another.
  func synchronize() throws {
    for pack in try all() { try pack.synchronize() }
  }
}

// MARK: - Removal

extension PackFiles {
  /// Unlinks all packs, their indexes and their checkpoint. The first pack is the last to go: a process that is killed in between
  /// leaves a directory in which packs are found, and the others with it.
  func removeAll() throws {
    for name in [PackCheckpoint.name, PackIndex.nextName, PackIndex.name] { try directory.unlinkOwn(name) }
    for pack in try all().reversed() { try directory.unlinkOwn(PackFile.name(pack.number)) }
  }
}

// MARK: - Room

/// Room for one record, in a chunk that is left alone until this value ends.
struct PackRoom: ~Copyable {
  let pack: PackFile
  let address: PackAddress
  /// What the record takes in its chunk.
  let byteCount: Int
  let chunkClass: ChunkClass

  deinit { pack.entry(ofChunk: address.chunk).endFlight() }
}

extension PackFiles {
  /// Sets room aside for a record.
  ///
  /// System calls: none, but for the first record of a chunk: `fallocate(2)`, and those that make a pack.
  ///
  /// - Parameters:
  ///   - byteCount: what the record takes in its chunk.
  ///   - header: the record's. The chunk notes when it is due.
  ///   - owner: the token of this process.
  ///   - sequence: the last one that was given to a record.
  ///   - spare: an empty chunk of the collection, which is used where the volume has no room for another.
  /// - Returns: nil if all packs are full.
  /// - Throws: where the volume has no room for a chunk.
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
          // Full, or taken away by a collection that took this process for dead.
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

  /// A free chunk, which has its blocks.
  private func takeChunk(for chunkClass: ChunkClass, owner: UInt64, sequence: UInt64) throws -> FilledChunk? {
    for number in 0..<PackLayout.packCount {
      guard let pack = try usable(number) ?? made(number) else { continue }
      guard let pack = pack.pack else { continue }
      // They need no room of the volume.
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

  /// An empty chunk that only collections use.
  struct Spare {
    let pack: PackFile
    let chunk: Int

    fileprivate var entry: ChunkEntry { pack.entry(ofChunk: chunk) }
  }

  /// Sets a free chunk aside, with its blocks, for the next collection.
  ///
  /// - Throws: where the volume has no room for it.
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

  /// Gives nothing out any more from the chunk of a class.
  ///
  /// After a sync has failed, nothing that is written there is known to reach the medium.
  func seal(_ chunkClass: ChunkClass) {
    filled.withLock { chunks in
      guard let chunk = chunks[Int(chunkClass.rawValue)] else { return }
      _ = chunk.entry.seal(owner: chunk.owner)
      chunks[Int(chunkClass.rawValue)] = nil
    }
  }
}

extension ChunkClass {
  /// The class of a record, so that those which expire at about the same time share a chunk.
  ///
  /// - Parameters:
  ///   - ttl: seconds; 0 for records that last as long as they are used.
  ///   - isDurable: whether the record is locked, or must be on the medium.
  init(ttl: UInt64, isDurable: Bool) {
    guard !isDurable else {
      self = .durable
      return
    }
    let bounds: [UInt64] = [0, 300, 3600, 6 * 3600, 24 * 3600, 7 * 24 * 3600]
    self.init(rawValue: UInt32(bounds.firstIndex { ttl <= $0 } ?? bounds.count))
  }
}
