import ArgumentParser
import BlobStore
import Foundation
import SystemPackage

/// A participant of the comparison.
enum Peer: String, CaseIterable, ExpressibleByArgument {
  /// This library's store.
  case blobStore = "blobstore"
  /// This library's store with small records in packs.
  case packs
  /// This library's store with packs that are read through a memory mapping.
  case packsMapped = "packs-mapped"
  /// The system calls of this library's store, in C.
  case calls
  /// System calls in C.
  case raw
  /// Foundation's atomic write of whole files, as in SPTPersistentCache, with an NSCache in front.
  case foundation
  case sqliteNormal = "sqlite-normal"
  case sqliteOff = "sqlite-off"
  case lmdb
  case levelDB = "leveldb"
  case rocksDB = "rocksdb"
  /// Python's diskcache.
  case diskCache = "diskcache"

  /// The name in tables and charts.
  var title: String {
    switch self {
    case .blobStore: "BlobStore"
    case .packs: "with packs"
    case .packsMapped: "mapped packs"
    case .calls: "its calls in C"
    case .raw: "raw files"
    case .foundation: "Data.write"
    case .sqliteNormal: "SQLite NORMAL"
    case .sqliteOff: "SQLite OFF"
    case .lmdb: "LMDB"
    case .levelDB: "LevelDB"
    case .rocksDB: "RocksDB"
    case .diskCache: "diskcache"
    }
  }

  /// The configuration and the additional features that influence the results.
  var settings: String {
    switch self {
    case .blobStore: "durability none, sharing shared, 8 GiB at most, checksummed: written, and compared by each load"
    case .packs: "as BlobStore, with records of 8 KiB or less in packs"
    case .packsMapped: "as with packs, which are mapped into memory and read there"
    case .calls: "the system calls of BlobStore, recycling as it does; no checksums, nothing but calls"
    case .raw: "temporary file, write, rename; open, fstat, read; no checksums, no locks"
    case .foundation:
      "Data.write(options: .atomic) of header and payload, which on Linux syncs the file; NSCache, empty when loads begin"
    case .sqliteNormal: "WAL, synchronous=NORMAL: syncs at checkpoints; YYCache's table and index, values of all sizes"
    case .sqliteOff: "WAL, synchronous=OFF; YYCache's table and index, values of all sizes"
    case .lmdb: "MDB_NOSYNC, a transaction each"
    case .levelDB: "default options, log without sync; block checksums as by default"
    case .rocksDB: "default options, write-ahead log without sync; block checksums compared"
    case .diskCache: "default settings: SQLite with WAL, synchronous=NORMAL, values of 32 KiB and more in files"
    }
  }

  /// A Boolean value that indicates whether the peer has a load that records the use.
  var notesUses: Bool {
    switch self {
    case .blobStore, .packs, .packsMapped, .calls, .raw, .foundation, .sqliteNormal, .sqliteOff: true
    case .lmdb, .levelDB, .rocksDB, .diskCache: false
    }
  }

  /// A Boolean value that indicates whether the peer can wait for the medium, and so for the unwritten bytes of
  /// other peers.
  var syncs: Bool { [.foundation, .sqliteNormal, .diskCache].contains(self) }

  func does(_ work: Work) -> Bool {
    switch work {
    case .loadTouching: notesUses
    // The system calls cover only single records; opening and closing a cache have no counterpart.
    case .open, .disk: self != .calls
    default: true
    }
  }
}

/// The location of diskcache, which is not linked.
struct Python {
  let interpreter: String
  /// The path of `diskcache_rounds.py`.
  let script: String
}

/// The reason why a peer does not participate.
struct PeerAbsence: Error {
  let reason: String
}

extension Peer {
  /// - Throws: `PeerAbsence` if the peer cannot participate.
  func contender(in directory: FilePath, _ payloads: Payloads, _ python: Python?) throws -> any Contender {
    switch self {
    case .blobStore: return try EngineContender(self) { try BlobStoreEngine(directory: directory) }
    case .packs:
      return try EngineContender(self) { try BlobStoreEngine(directory: directory, packing: .upTo(8 << 10)) }
    case .packsMapped:
      return try EngineContender(self) {
        try BlobStoreEngine(directory: directory, packing: .upTo(8 << 10), packReads: .mapped)
      }
    case .calls:
      #if os(Linux)
        return try EngineContender(self) { try RecycledFilesEngine(directory: directory) }
      #else
        throw PeerAbsence(reason: "leases, without which nothing is recycled, are Linux's")
      #endif
    case .raw: return try EngineContender(self) { try RawFilesEngine(directory: directory) }
    case .foundation: return try EngineContender(self) { try FoundationEngine(directory: directory) }
    case .sqliteNormal, .sqliteOff:
      #if SQLITE
        let synchronous = self == .sqliteNormal ? "normal" : "off"
        return try EngineContender(self) { try SQLiteEngine(directory: directory, synchronous: synchronous) }
      #else
        throw PeerAbsence(reason: "sqlite3.h is not installed")
      #endif
    case .lmdb:
      #if LMDB
        return try EngineContender(self) { try LMDBEngine(directory: directory) }
      #else
        throw PeerAbsence(reason: "lmdb.h is not installed")
      #endif
    case .levelDB:
      #if LEVELDB
        return try EngineContender(self) { try LevelDBEngine(directory: directory) }
      #else
        throw PeerAbsence(reason: "leveldb/c.h is not installed")
      #endif
    case .rocksDB:
      #if ROCKSDB
        return try EngineContender(self) { try RocksDBEngine(directory: directory) }
      #else
        throw PeerAbsence(reason: "rocksdb/c.h is not installed")
      #endif
    case .diskCache:
      guard let python else { throw PeerAbsence(reason: "Python's diskcache is not installed") }
      guard FileManager.default.isExecutableFile(atPath: python.interpreter) else {
        throw PeerAbsence(reason: "\(python.interpreter) is not for user \(geteuid())")
      }
      return try DiskCacheContender(directory: directory, payloads, python)
    }
  }
}
